"""One fit over several processes, on one machine or many, through skorch's support for Accelerate.

Every process sees all graphs and holds the whole module. Of each batch it computes its own share; the outputs are then
gathered, so that every process takes the loss of the whole batch, just as one process alone would: means over labelled
graphs, the history, early stopping and what callbacks decide are the same everywhere, whatever the shares.
"""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from skorch import NeuralNet
from skorch.hf import AccelerateMixin
from skorch.utils import noop
from torch import Tensor, distributed

from isocapsnet._validation import InputError
from isocapsnet.models._batches import Batches


def n_processes() -> int:
    """How many processes train together: those of torch's process group, or this one alone where none was created.

    What a launcher writes into the environment does not count: a cluster's scheduler may have put it there.
    """
    joined = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if joined else 1


def join_processes(seed: int, device: torch.device) -> tuple[int, torch.device]:
    """Wait for the other processes, and take the first one's seed and the device that the launcher meant for this one.

    Both as they are when there are no others.
    """
    if n_processes() == 1:
        return seed, device
    try:
        from accelerate import PartialState
    except ImportError as error:
        raise ImportError(
            f"A fit over the {n_processes()} processes of torch.distributed needs Accelerate; "
            'install it with pip install "isocapsnet[distributed]".'
        ) from error
    state = PartialState(cpu=device.type == "cpu")
    if state.num_processes != n_processes():
        raise InputError(
            f"torch.distributed has {n_processes()} processes but Accelerate sees {state.num_processes}; start the "
            "script with `accelerate launch` or `torchrun`."
        )
    return agree(seed), device if device.type == "cpu" else state.device


def agree(value: Any) -> Any:
    """The first process's value in all of them."""
    values = [value]
    if n_processes() > 1:
        distributed.broadcast_object_list(values)
    return values[0]


def build_net(device: torch.device, **settings: Any) -> NeuralNet:
    """A skorch net on ``device``, which trains with those of the other processes if there are any."""
    if n_processes() == 1:
        return NeuralNet(device=str(device), iterator_train=Batches, iterator_valid=Batches, **settings)
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs

    in_place = DistributedDataParallelKwargs(gradient_as_bucket_view=True)  # no second copy of the gradients
    accelerator = Accelerator(cpu=device.type == "cpu", device_placement=False, kwargs_handlers=[in_place])
    return DistributedNet(
        accelerator=accelerator,
        callbacks__print_log__sink=print if accelerator.is_main_process else noop,
        unwrap_after_train=False,  # before early stopping restores the wrapped module's state; see partial_fit
        device=str(device),
        iterator_train=Shares,
        iterator_valid=Shares,
        **settings,
    )


def gather(share: Tensor) -> Tensor:
    """The shares ``(n, ...)`` of all processes, one after another ``(n_processes * n, ...)``, in each of them."""
    return share if n_processes() == 1 else _Gather.apply(share)


def own_share(gathered: Tensor) -> Tensor:
    """The inverse of :func:`gather`: the rows that this process gave."""
    return gathered if n_processes() == 1 else gathered.chunk(n_processes())[distributed.get_rank()]


class _Gather(torch.autograd.Function):
    """All shares, with the gradient of all losses: equal ones, of which the mean over the processes is taken later."""

    @staticmethod
    def forward(ctx: Any, share: Tensor) -> Tensor:
        share = share.contiguous()
        shares = [torch.empty_like(share) for _ in range(n_processes())]
        distributed.all_gather(shares, share)
        return torch.cat(shares)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return own_share(total)


class Share:
    """What one process computes of a batch.

    Parameters
    ----------
    inputs : Tensor (n, n_nodes, n_nodes) or dict of Tensor (n, ...)
        The module's arguments.
    n_graphs : int
        In the whole batch, which is the length that skorch weighs the loss by.
    """

    def __init__(self, inputs: Any, n_graphs: int) -> None:
        self.inputs, self.n_graphs = inputs, n_graphs

    def __len__(self) -> int:
        return self.n_graphs


class Shares(Batches):
    """This process's share of each batch, with the codes of the whole batch.

    All shares of a batch are of one size; where it does not divide, the last graph is repeated, and what the module
    says about the repetitions is cut off by :class:`DistributedNet`.
    """

    def __iter__(self) -> Iterator[tuple[Any, Tensor]]:
        for positions in self.positions():
            positions = np.sort(positions)  # codes in the order of the gathered shares, however a share is read
            padded = np.pad(positions, (0, -len(positions) % n_processes()), mode="edge")
            inputs, _ = self.dataset.batch(np.split(padded, n_processes())[distributed.get_rank()])
            yield Share(inputs, len(positions)), self.dataset.codes_at(positions)

    def order(self) -> Tensor:
        """The first process's order: dropout may have left the generators of the others elsewhere."""
        order = super().order().to(self.dataset.device)
        distributed.broadcast(order, src=0)
        return order.cpu()


class DistributedNet(AccelerateMixin, NeuralNet):
    """A skorch net that trains together with those of the other processes."""

    module_: Any
    optimizer_: Any

    def initialize(self) -> Self:
        """As for one process: modules are wrapped when the loop begins."""
        return NeuralNet.initialize(self)

    def fit_loop(self, *arguments: Any, **settings: Any) -> Self:
        """The loop over epochs."""
        # Only now: callbacks find a plain module in on_train_begin, and what the first process's callbacks have made
        # of it is what all start from.
        self._initialize_accelerator()
        if not self.accelerator.is_main_process:
            torch.manual_seed(torch.initial_seed() + self.accelerator.process_index)  # a dropout of its own
        return super().fit_loop(*arguments, **settings)

    def _initialize_accelerator(self) -> Self:
        # Not the criterion: it has nothing to learn, which torch's wrapper refuses. Nor learning rate schedules: left
        # alone, they count whole batches, as they should.
        self.module_, self.optimizer_ = self.accelerator.prepare(self.module_, self.optimizer_)
        self._wrapped_with_accelerator = True
        return self

    def partial_fit(self, *arguments: Any, **settings: Any) -> Self:
        """Train, and leave plain modules behind."""
        super().partial_fit(*arguments, **settings)
        self._unwrap_accelerator()
        self.accelerator.free_memory()
        return self

    def infer(self, x: Share, **settings: Any) -> Any:
        """The module's output for the whole batch, from this process's share of it."""
        from accelerate.utils import recursively_apply

        def join(share: Tensor) -> Tensor:
            return gather(share)[: len(x)] if share.ndim else gather(share[None]).mean()

        return recursively_apply(join, super().infer(x.inputs, **settings))

    def evaluation_step(self, batch: Any, training: bool = False) -> Any:
        """The output for the whole batch; ``infer`` has gathered it already."""
        return NeuralNet.evaluation_step(self, batch, training=training)
