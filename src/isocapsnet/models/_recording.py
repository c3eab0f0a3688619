"""Training steps on a GPU as CUDA graphs: the host launches one graph instead of hundreds of small kernels."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

# A function of a training: inputs and codes of a batch to its loss and the output of the module.
Pass = Callable[[Any, Tensor], tuple[Tensor, Any]]

# Of each thread and device: the stream of the recordings, and a recording that keeps their memory.
_resources = threading.local()


@contextmanager
def recording_stream(device: torch.device) -> Iterator[None]:
    """A stream on which steps can be recorded; on a CPU nothing changes."""
    if device.type != "cuda":
        yield
        return
    stream, _ = _get_resources(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


def _get_resources(device: torch.device) -> tuple[torch.cuda.Stream, Any]:
    if device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    of_device = _resources.__dict__.setdefault("of_device", {})
    if device not in of_device:
        stream, anchor = torch.cuda.Stream(device), torch.cuda.CUDAGraph()
        # Memory of recordings can be used again as long as one of them exists: this one, of nothing but a zero.
        with torch.cuda.stream(stream):
            anchor.capture_begin(capture_error_mode="thread_local")
            torch.zeros(1, device=device)
            anchor.capture_end()
        of_device[device] = stream, anchor
    return of_device[device]


def free_for_recordings(device: torch.device) -> int:
    """Bytes that torch keeps for the recordings of this thread, and that none of them uses."""
    _, anchor = _get_resources(device)
    return cached_bytes(device, anchor.pool())


def cached_bytes(device: torch.device, pool: tuple[int, int] = (0, 0)) -> int:
    """GPU memory that torch has reserved for one of its pools, and that is free; (0, 0) is what all tensors share."""
    index = torch.cuda.current_device() if device.index is None else device.index
    return sum(
        segment["total_size"] - segment["allocated_size"]
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == index and tuple(segment["segment_pool_id"]) == pool
    )


class Recorded:
    """A function of batches that is recorded for each shape and replayed from then on.

    The first batch of a shape runs as usual: kernels are compiled, and what outlives a step is allocated. The second
    one is recorded. Recording does not run anything, so every batch is one call of the function. The function may not
    wait for the device, and its random numbers may only come from torch's generator of the device. Batches that are
    more than a tensor are not recorded.

    Parameters
    ----------
    function : callable
        Inputs and codes of a batch to the loss and the output of the module.
    """

    def __init__(self, function: Pass) -> None:
        self.function = function
        self.seen: set[tuple[int, ...]] = set()
        self.recordings: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Tensor, Tensor, Tensor, Any]] = {}

    def __call__(self, inputs: Any, codes: Tensor) -> tuple[Tensor, Any]:
        """The loss and the output for a batch; the output is valid until the next call."""
        if not isinstance(inputs, Tensor):
            return self.function(inputs, codes)
        shape = tuple(inputs.shape)
        if shape not in self.seen:
            self.seen.add(shape)
            return self.function(inputs, codes)
        if shape not in self.recordings:
            self.recordings[shape] = self._record(inputs.clone(), codes.clone())
        graph, recorded_inputs, recorded_codes, loss, output = self.recordings[shape]
        recorded_inputs.copy_(inputs)
        recorded_codes.copy_(codes)
        graph.replay()
        return loss.clone(), output

    def _record(self, inputs: Tensor, codes: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor, Tensor, Any]:
        # Not torch.cuda.graph: it collects garbage and empties the cache first, which takes longer than the recording.
        graph, (_, anchor) = torch.cuda.CUDAGraph(), _get_resources(inputs.device)
        graph.capture_begin(pool=anchor.pool(), capture_error_mode="thread_local")
        try:
            loss, output = self.function(inputs, codes)
        finally:
            graph.capture_end()
        return graph, inputs, codes, loss, output
