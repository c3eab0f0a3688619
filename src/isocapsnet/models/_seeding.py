"""Random numbers of one seed, from the generators that torch's layers use."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# A thread that holds it may enter again: a callback may fit another network.
_one_at_a_time = threading.RLock()


def _renew() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.RLock()


# A process that is forked while another thread holds the lock does not have that thread, and would wait forever.
os.register_at_fork(after_in_child=_renew)
_CPU = torch.device("cpu")


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Begin with ``seed`` in the generators of the CPU and of the device, and restore them afterwards.

    Layers draw weights and dropout masks from the generators of the process. Two threads inside at the same time would
    take numbers from each other, so the second one waits.
    """
    on_gpu = device.type == "cuda"
    with _one_at_a_time, torch.random.fork_rng(devices=[device] if on_gpu else []):
        # Not torch.manual_seed: it would also change the generators of other devices, which are not restored.
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        elif device.type != "cpu":
            torch.get_device_module(device).manual_seed(seed)
        yield
