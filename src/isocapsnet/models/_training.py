"""The training loop of every network: epochs, losses, early stopping, callbacks. Needs torch alone."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from isocapsnet._stages import end_epoch
from isocapsnet.functional.kernels import reusing_buffers, taking_gradients
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._optimizer import Adam
from isocapsnet.models._recording import Recorded

logger = logging.getLogger("isocapsnet")

#: One dict per epoch: ``epoch``, ``train_loss``, ``valid_loss`` (with a validation part) and ``dur`` in seconds.
History = list[dict[str, Any]]

# Larger weights of the best epoch are kept in a temporary file.
_WEIGHTS_IN_MEMORY = 64 * 1024**2


class TrainingDivergedError(ArithmeticError, RuntimeError):
    """The training loss became infinite or NaN. A search leaves candidates out whose training does."""


class Callback(Protocol):
    """What a network's ``callbacks`` may hold, besides plain functions ``function(history)``.

    A callback may also have ``on_batch_end(output, codes)``. It is called after each training step with the module's
    output for the batch and the class codes ``(n_graphs,)``, which are -1 for unlabelled graphs.
    """

    def on_epoch_end(self, history: History) -> bool | None:
        """Called after each epoch with the history so far; the training stops when any callback returns True."""


@reusing_buffers()
def train(
    module: nn.Module,
    criterion: Callable[[Any, Tensor], Tensor],
    optimizer: Adam,
    graphs: GraphStore,
    validation: GraphStore | None = None,
    *,
    batch_size: int,
    max_epochs: int,
    patience: int | None = None,
    callbacks: Iterable[Any] = (),
    verbose: bool = False,
    record: bool = False,
) -> History:
    """Train ``module`` in place and return the history.

    Parameters
    ----------
    module, criterion
        The loss of a batch is ``criterion(module(graphs), codes)``.
    optimizer : Adam
    graphs, validation : GraphStore
        Graphs to train on, in a new random order in each epoch, and graphs of which the loss is computed only.
    batch_size, max_epochs : int
    patience : int, optional
        Stop after this many epochs without a lower validation loss. The module ends with the weights of the epoch with
        the lowest one, even if a callback stops the training.
    callbacks : iterable of Callback or callable
    verbose : bool
        Print one line per epoch.
    record : bool
        Record a step for each size of a batch and replay it: on a GPU, for modules that never wait for the device.
    """
    history: History = []
    best = _BestEpoch(module) if validation is not None and patience is not None else None
    on_epoch_end = [getattr(callback, "on_epoch_end", callback) for callback in callbacks]
    on_batch_end = [callback.on_batch_end for callback in callbacks if hasattr(callback, "on_batch_end")]

    def step(inputs: Any, codes: Tensor) -> tuple[Tensor, Any]:
        optimizer.zero_grad()
        with taking_gradients(optimizer.takers()):
            output = apply(module, inputs)
            loss = criterion(output, codes)
            loss.backward()
        optimizer.step()
        return loss.detach(), output

    @torch.no_grad()
    def evaluate(inputs: Any, codes: Tensor) -> tuple[Tensor, Any]:
        output = apply(module, inputs)
        return criterion(output, codes), None

    if record:
        step, evaluate = Recorded(step), Recorded(evaluate)
    for epoch in range(1, max_epochs + 1):
        start = perf_counter()
        module.train()
        losses = []
        for inputs, codes in graphs.batches(batch_size, shuffle=True):
            loss, output = step(inputs, codes)
            losses.append((loss, len(codes)))
            if graphs.device.type == "cpu" and not math.isfinite(loss):
                break  # on a GPU the host does not wait for each loss
            for callback in on_batch_end:
                callback(output, codes)
            del output  # it holds tensors of the step, which would lie beside those of the next one
        row = {"epoch": epoch, "train_loss": _mean(losses)}
        if not math.isfinite(row["train_loss"]):
            raise TrainingDivergedError(
                f"Training diverged in epoch {epoch}: the loss became {row['train_loss']}. Lower learning_rate (now "
                f"{optimizer.learning_rate:g}) or scale the graphs."
            )
        if validation is not None:
            module.eval()
            row["valid_loss"] = _mean((evaluate(*batch)[0], len(batch[1])) for batch in validation.batches(batch_size))
        history.append(row | {"dur": perf_counter() - start})
        if verbose:
            print(_describe(history[-1], max_epochs))
        stop = best is not None and best.update(epoch, row["valid_loss"]) == patience
        answers = [callback(history) for callback in on_epoch_end]  # all are called, even if the training stops
        answers.append(end_epoch(history, max_epochs, may_stop=best is not None or bool(on_epoch_end)))
        if stop or any(answers):
            break

    if best is not None:
        best.restore(last_epoch=len(history))
    return history


def apply(module: nn.Module, inputs: Any) -> Any:
    """The module's output for one batch of a :class:`~isocapsnet.models._batches.GraphStore`."""
    return module(**inputs) if isinstance(inputs, dict) else module(inputs)


@torch.no_grad()
def outputs(module: nn.Module, graphs: GraphStore, batch_size: int) -> Iterator[tuple[Any, Tensor]]:
    """The module's output and the codes of each batch, in evaluation mode and in the order of the graphs."""
    module.eval()
    for inputs, codes in graphs.batches(batch_size):
        yield apply(module, inputs), codes


def _mean(losses: Iterable[tuple[Tensor, int]]) -> float:
    """The mean over graphs, from the losses of batches and their sizes. On a GPU this is where the host waits."""
    values, sizes = zip(*losses, strict=True)
    return float(np.average(torch.stack(values).tolist(), weights=sizes))


def _describe(row: dict[str, Any], max_epochs: int) -> str:
    losses = ", ".join(f"{name} {row[name]:.4f}" for name in ("train_loss", "valid_loss") if name in row)
    return f"Epoch {row['epoch']}/{max_epochs}: {losses} ({row['dur']:.2f} s)"


class _BestEpoch:
    """The weights of the epoch with the lowest validation loss, in memory or, if they are large, in a file."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.epoch, self.loss, self.n_misses = module, 0, math.inf, 0
        size = sum(tensor.nbytes for tensor in module.state_dict().values())
        self.weights = TemporaryFile() if size > _WEIGHTS_IN_MEMORY else BytesIO()  # noqa: SIM115

    def update(self, epoch: int, loss: float) -> int:
        """Compare an epoch with the best one; the number of epochs since that."""
        if not loss < self.loss:
            self.n_misses += 1
            return self.n_misses
        self.epoch, self.loss, self.n_misses = epoch, loss, 0
        self.weights.seek(0)
        for tensor in self.module.state_dict().values():
            self.weights.write(tensor.cpu().numpy())
        return 0

    def restore(self, last_epoch: int) -> None:
        """Give the module the weights of the best epoch."""
        with self.weights as weights:
            if not 0 < self.epoch < last_epoch:
                return
            logger.info("Restoring the weights of epoch %d.", self.epoch)
            weights.seek(0)
            for tensor in self.module.state_dict().values():
                on_cpu = tensor.cpu()  # on a CPU this is the tensor itself: no second copy
                weights.readinto(on_cpu.numpy())
                tensor.copy_(on_cpu)
