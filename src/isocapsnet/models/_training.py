"""The training loop of every network: epochs, losses, early stopping, callbacks. Needs torch alone."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BytesIO
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from isocapsnet._stages import end_epoch
from isocapsnet.functional.kernels import (
    Taker,
    forget_used,
    give_back,
    on_large_pages,
    reusing_buffers,
    taking_gradients,
    zeros_like,
)
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._recording import Recorded

logger = logging.getLogger("isocapsnet")

#: One dict per epoch: ``epoch``, ``train_loss``, ``valid_loss`` (with a validation part) and ``dur`` in seconds.
History = list[dict[str, Any]]

# Larger weights of the best epoch are kept in a temporary file.
_WEIGHTS_IN_MEMORY = 64 * 1024**2
# Parameters of this size have no gradient in memory, if the kernels that compute it give it in parts.
_LARGE = 32 * 1024**2


class TrainingDivergedError(ArithmeticError, RuntimeError):
    """The training loss became infinite or NaN. A search leaves candidates out whose training does."""


class Callback(Protocol):
    """What a network's ``callbacks`` may hold, besides plain functions ``function(history)``.

    A callback may also have ``on_batch_end(output, codes)``. It is called after each training step with the module's
    output for the batch and the class codes ``(n_graphs,)``, which are -1 for unlabelled graphs.
    """

    def on_epoch_end(self, history: History) -> bool | None:
        """Called after each epoch with the history so far; the training stops when any callback returns True."""


class Adam:
    """AdamW with torch's fused steps, or Adam with its plain ones.

    torch's optimizer classes import its compiler on their first step (65 MB, more than a second); its functions do not.

    Parameters
    ----------
    parameters : iterable of Tensor
        Large ones on a CPU move to other memory; views of them that were made before do not follow.
    learning_rate, weight_decay : float
    decoupled : bool
        Whether the weight decay is decoupled (AdamW) or an L2 penalty (Adam).
    others : Adam, optional
        Parameters with a learning rate of their own, which move in the same steps.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        learning_rate: float,
        weight_decay: float,
        *,
        decoupled: bool = True,
        others: "Adam | None" = None,
    ) -> None:
        self.parameters, self.others = list(parameters), others
        self.learning_rate, self.weight_decay, self.decoupled = learning_rate, weight_decay, decoupled
        self.moments: dict[Tensor, tuple[Tensor, Tensor, Tensor]] = {}
        self.moved: set[Tensor] = set()
        for parameter in self.parameters:
            parameter.data = on_large_pages(parameter.data)

    def zero_grad(self) -> None:
        """Forget the gradients of the last step."""
        for parameter in self.parameters:
            give_back(parameter.grad)
            parameter.grad = None
        if self.others is not None:
            self.others.zero_grad()
        forget_used()

    def takers(self) -> dict[Tensor, Taker]:
        """What moves parts of large parameters as soon as their gradients are known; :meth:`step` moves the others."""
        large = [p for p in self.parameters if p.nbytes >= _LARGE and p.requires_grad]
        own: dict[Tensor, Taker] = {parameter: partial(self._move_part, parameter) for parameter in large}
        return own if self.others is None else own | self.others.takers()

    @torch.no_grad()
    def _move_part(self, parameter: Tensor, part: Callable[[Tensor], Tensor], gradient: Tensor) -> None:
        mean, square, n_steps = self._moments_of(parameter)
        self._move([part(parameter)], [gradient], [part(mean)], [part(square)], [n_steps.clone()])
        self.moved.add(parameter)

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters that have a gradient."""
        for parameter in self.moved:
            self.moments[parameter][2].add_(1)
        self.moved.clear()
        gradients = {parameter: parameter.grad for parameter in self.parameters if parameter.grad is not None}
        if gradients:
            moments = [self._moments_of(parameter) for parameter in gradients]
            self._move(list(gradients), list(gradients.values()), *map(list, zip(*moments, strict=True)))
        if self.others is not None:
            self.others.step()

    def _moments_of(self, parameter: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The mean of the gradients, that of their squares, and the number of steps."""
        if parameter not in self.moments:
            # As late as here: lying above the freed activations, they keep the allocator from returning that memory to
            # the system after every batch.
            zeros = zeros_like(parameter), zeros_like(parameter), torch.zeros((), device=parameter.device)
            self.moments[parameter] = zeros
        return self.moments[parameter]

    def _move(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        means: list[Tensor],
        squares: list[Tensor],
        n_steps: list[Tensor],
    ) -> None:
        (adamw if self.decoupled else adam)(
            parameters, gradients, means, squares, [], n_steps,
            # The L2 penalty is that of the published program, whose plain steps round in another way than fused ones.
            fused=self.decoupled, foreach=False, amsgrad=False, maximize=False, beta1=0.9, beta2=0.999, eps=1e-8,
            lr=self.learning_rate, weight_decay=self.weight_decay,
        )  # fmt: skip


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
