"""Random numbers of one seed, from the generators that torch's layers use."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.backends import cudnn

Pause = Callable[[], AbstractContextManager[None]]

_one_at_a_time = threading.RLock()


def _renew() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.RLock()


# A process that is forked while another thread holds the lock does not have that thread, and would wait forever.
os.register_at_fork(after_in_child=_renew)
_CPU = torch.device("cpu")


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[Pause]:
    """Begin with ``seed`` in the generators of the CPU and of the device, and restore them afterwards.

    Layers draw weights and dropout masks from the generators of the process. Two threads inside at the same time would
    take numbers from each other, so the second one waits. It yields ``pause``: inside ``with pause():`` generators and
    settings of cuDNN are those outside, and another thread may enter. The code of a user runs there, so that it may
    wait for a fit in another thread, and draws no numbers of this seed.
    """
    lock, on_gpu = _one_at_a_time, device.type == "cuda"
    with lock:
        outside = _get_states(device)
        names = ("enabled", "benchmark", "deterministic", "allow_tf32") if on_gpu else ()
        convolutions = {name: getattr(cudnn, name) for name in names}

        @contextmanager
        def pause() -> Iterator[None]:
            nonlocal outside
            inside = _get_states(device)
            with cudnn.flags(**convolutions) if on_gpu else nullcontext():
                _set_states(device, outside)
                lock.release()
                try:
                    yield
                finally:
                    lock.acquire()
                    outside = _get_states(device)
                    _set_states(device, inside)

        try:
            # Not torch.manual_seed: it would also change the generators of other devices, which are not restored.
            torch.default_generator.manual_seed(seed)
            if on_gpu:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
            elif device.type != "cpu":
                torch.get_device_module(device).manual_seed(seed)
            yield pause
        finally:
            _set_states(device, outside)


def pausing(callback: Any, pause: Pause) -> Any:
    """A callback of a training (see ``_training.Callback``) that is called while the training pauses."""

    def outside(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with pause():
                return function(*arguments)

        return call

    parts = {"on_epoch_end": getattr(callback, "on_epoch_end", callback)}
    parts |= {"on_batch_end": callback.on_batch_end} if hasattr(callback, "on_batch_end") else {}
    return SimpleNamespace(**{name: outside(function) for name, function in parts.items()})


def _get_states(device: torch.device) -> list[Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def _set_states(device: torch.device, states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
