"""The device of a fit, the memory that the fit needs, and the memory that is free."""

import logging
import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor, nn

from isocapsnet._validation import InputError
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._recording import cached_bytes
from isocapsnet.models._training import apply

logger = logging.getLogger("isocapsnet")

#: Bytes in float32: the parameter itself, and its gradient and two moments of Adam. Kernels of the CPU
#: need no whole gradient of a large parameter, so this is more than such a fit needs.
PARAMETER, WHILE_TRAINING = 4, 12
# The backward pass has gradients of what the forward pass kept.
_GRADIENTS_TOO = 2
_FITS_PER_GPU, _BYTES_PER_FIT = 4, 4 * 1024**3

# psutil does not know control groups. By the controllers in a line of /proc/self/cgroup ("" is version 2): the folder
# of the groups, the files of limit and usage, and the key of memory.stat for cache that is freed on demand.
_CGROUP_FILES = {
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def resolve_device(device: str) -> torch.device:
    """``"auto"`` is a GPU if there is one; any other name is torch's."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        if resolved.type == "meta":
            raise RuntimeError("the meta device has no memory")
    except (RuntimeError, TypeError) as error:
        raise InputError(f'device={device!r} is not supported; use "auto", "cpu" or "cuda".') from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f'device={device!r} needs a GPU, but torch finds none; use device="cpu".')
    return resolved


def fits_at_once(device: str) -> int | None:
    """The number of processes that may train on a device by default; None on a CPU, where each needs a core.

    Fits of small networks share a GPU well, but each process has its own context and memory there.
    """
    if not torch.cuda.is_available() or resolve_device(device).type != "cuda":
        return None
    memory = torch.cuda.get_device_properties(resolve_device(device)).total_memory
    return max(1, min(_FITS_PER_GPU, memory // _BYTES_PER_FIT))


def repeatable_convolutions() -> AbstractContextManager[None]:
    """Convolutions on a GPU give the same bits every time inside; torch's settings are as before afterwards."""
    cudnn = torch.backends.cudnn
    return cudnn.flags(cudnn.enabled, benchmark=False, deterministic=True, allow_tf32=cudnn.allow_tf32)


def check_room(
    name: str, device: torch.device, module: nn.Module, *, hint: str, beside: int = 0, batch: int = 0
) -> None:
    """Raise InputError if a fit needs more memory than is free.

    Parameters
    ----------
    name : str
        Name of the estimator.
    device : torch.device
    module : Module
        On the meta device, or already allocated.
    hint : str
        What would reduce the memory.
    beside, batch : int
        Bytes needed in addition to the parameters of the module, and by a batch.
    """
    n_parameters = sum(parameter.numel() for parameter in module.parameters())
    in_place = not any(parameter.is_meta for parameter in module.parameters())
    training = beside + n_parameters * (WHILE_TRAINING if in_place else PARAMETER + WHILE_TRAINING)
    needed, available = training + batch, available_bytes(device)
    logger.info(
        "%s: %s parameters, %.0f MB to train them, %.0f MB for a batch, %.0f MB free on %s",
        name, f"{n_parameters:,}", training / 1e6, batch / 1e6, available / 1e6, device,
    )  # fmt: skip
    if needed > available:
        raise InputError(
            f"{name} needs {needed / 1e9:.1f} GB to train ({training / 1e9:.1f} GB for {n_parameters:,} parameters, "
            f"{batch / 1e9:.1f} GB for a batch), but {device} has {available / 1e9:.1f} GB free; {hint}."
        )


def bytes_of_batch(module: nn.Module, criterion: nn.Module, graphs: GraphStore, n_graphs: int) -> int:
    """Bytes that a training step on ``n_graphs`` graphs needs, extrapolated from a few graphs and twice as many."""
    # GPU kernels are compiled again for numbers of graphs that are no multiples of 16.
    few = min(n_graphs, 16 if graphs.device.type == "cuda" else 1)
    more = min(n_graphs, 2 * few)
    in_passing = [0]
    # What a layer needs only while it runs, in both passes; that of the layer that needs most is added.
    hooks = [
        layer.register_forward_hook(
            lambda layer, _, output: in_passing.append(layer.bytes_in_passing(output, n_graphs))
        )
        for layer in module.modules()
        if hasattr(layer, "bytes_in_passing")
    ]
    kept, kept_by_more = (_bytes_kept(module, criterion, *graphs.batch(np.arange(n))) for n in (few, more))
    for hook in hooks:
        hook.remove()
    each = max(0, kept_by_more - kept) / max(1, more - few)
    return (
        round(_GRADIENTS_TOO * (kept + (n_graphs - few) * each)) + max(in_passing) + graphs.bytes_in_passing(n_graphs)
    )


def _bytes_kept(module: nn.Module, criterion: nn.Module, inputs: Any, codes: Tensor) -> int:
    """Bytes that the forward pass of a batch keeps for the backward pass, without the module itself."""
    own = {tensor.untyped_storage().data_ptr() for tensor in module.state_dict().values()}
    kept: dict[int, torch.UntypedStorage] = {}

    def note(tensor: Tensor) -> None:
        # The storage and not the tensor: a graph that holds its own outputs is a cycle that is never freed.
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage

    def refuse(_: None) -> Tensor:
        raise NotImplementedError("There is no backward pass.")

    training = module.training
    module.eval()  # keeps the statistics of batch normalisation, and draws no random numbers
    with torch.autograd.graph.saved_tensors_hooks(note, refuse):
        loss = criterion(apply(module, inputs), codes)
    module.train(training)
    del loss
    return sum(storage.nbytes() for address, storage in kept.items() if address not in own)


def available_bytes(device: torch.device) -> int:
    """Memory that a fit may use: what is free on the device, or less if the control group of the process has less."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + cached_bytes(device)
    return int(min(psutil.virtual_memory().available, _left_in_cgroup()))


def _left_in_cgroup(membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> float:
    """Bytes until the nearest memory limit of the control groups of this process; infinite without a limit."""
    try:
        groups = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:
        return math.inf
    left = math.inf
    for _, controllers, path in groups:
        if controllers in _CGROUP_FILES:
            folder, *files = _CGROUP_FILES[controllers]
            top = root / folder
            group = top / path.lstrip("/")
            # A limit includes the groups below it. In a container only the top folder may exist.
            for level in (group, *group.parents):
                left = min(left, _left_at(level, *files))
                if level == top:
                    break
    return left


def _left_at(group: Path, limit: str, usage: str, cache: str) -> float:
    try:
        most, used = (group / limit).read_text().strip(), int((group / usage).read_text())
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return math.inf if most == "max" else max(0, int(most) - used + int(statistics.get(cache, 0)))
    except (OSError, ValueError):
        return math.inf
