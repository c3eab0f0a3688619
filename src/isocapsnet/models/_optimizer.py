"""Adam, which moves the weights of every network. Needs torch alone."""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from isocapsnet.functional.kernels import Taker, forget_used, give_back, on_large_pages, parallel_ranges, zeros_like

# The gradient of a parameter of this many bytes is never in memory whole, if its kernel gives it in parts.
_LARGE = 8 * 1024**2
# From this many weights on, a CPU may move them on several threads, in blocks of so many: whole vectors, so that the
# same instructions move a weight however the blocks are shared.
_MANY_WEIGHTS, _BLOCK = 2**20, 2**16


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
        self._moments: dict[Tensor, tuple[Tensor, Tensor, Tensor]] = {}
        self._moved: set[Tensor] = set()  # part by part, in this step
        self._adding_moments = threading.Lock()
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
        """What moves parts of large parameters as soon as their gradients are known; :meth:`step` moves the others.

        Parts may be moved by several threads.
        """
        movable = [x for x in self.parameters if x.requires_grad and x.is_contiguous()] if self.decoupled else []
        large = [parameter for parameter in movable if parameter.nbytes >= _LARGE]
        own: dict[Tensor, Taker] = {parameter: partial(self._move_part, parameter) for parameter in large}
        return own if self.others is None else own | self.others.takers()

    @torch.no_grad()
    def _move_part(self, parameter: Tensor, part: Callable[[Tensor], Tensor], gradient: Tensor) -> None:
        mean, square, n_steps = self._moments_of(parameter)
        self._move([part(parameter)], [gradient], [part(mean)], [part(square)], [n_steps.clone()])
        self._moved.add(parameter)

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters that have a gradient."""
        for parameter in self._moved:
            if parameter.grad is not None:
                raise RuntimeError(
                    "A weight has two gradients in one step, and has moved by the first of them. Either it was used in "
                    "two ways, or a fused kernel failed after a part of the weights had moved; in that case fit again: "
                    "the kernels are now off."
                )
            self._moments[parameter][2].add_(1)
        self._moved.clear()
        gradients = {parameter: parameter.grad for parameter in self.parameters if parameter.grad is not None}
        if gradients:
            means, squares, n_steps = map(list, zip(*map(self._moments_of, gradients), strict=True))
            columns = list(gradients), list(gradients.values()), means, squares
            if self.decoupled and sum(map(Tensor.numel, gradients)) >= _MANY_WEIGHTS and _lie_in_rows(columns):
                self._move_in_blocks(columns, n_steps)
            else:
                self._move(*columns, n_steps)
        if self.others is not None:
            self.others.step()

    def _moments_of(self, parameter: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The mean of the gradients, that of their squares, and the number of steps."""
        with self._adding_moments:
            if parameter not in self._moments:
                # Not before the first step: they then lie above activations, and keep the allocator from returning that
                # memory to the system after every batch.
                zeros = zeros_like(parameter), zeros_like(parameter), torch.zeros((), device=parameter.device)
                self._moments[parameter] = zeros
        return self._moments[parameter]

    def _move(self, *columns: list[Tensor]) -> None:
        """Move parameters by their gradients, means, squares and numbers of steps, which change too."""
        parameters, gradients, means, squares, n_steps = columns
        (adamw if self.decoupled else adam)(
            parameters, gradients, means, squares, [], n_steps,
            # The L2 penalty is that of the published program, whose plain steps round in another way than fused ones.
            fused=self.decoupled, foreach=False, amsgrad=False, maximize=False, beta1=0.9, beta2=0.999, eps=1e-8,
            lr=self.learning_rate, weight_decay=self.weight_decay,
        )  # fmt: skip

    def _move_in_blocks(self, columns: tuple[list[Tensor], ...], n_steps: list[Tensor]) -> None:
        """The same on several threads, if they are free. Each weight moves by itself, so the result is the same."""
        flat = [[tensor.detach().view(-1) for tensor in column] for column in columns]
        blocks = [(i, first) for i, tensor in enumerate(flat[0]) for first in range(0, len(tensor), _BLOCK)]

        def move(start: int, stop: int) -> None:
            parts = []
            for i, own in groupby(blocks[start:stop], key=lambda block: block[0]):
                firsts = [first for _, first in own]
                parts.append((i, slice(firsts[0], firsts[-1] + _BLOCK)))
            pieces = [[column[i][part] for i, part in parts] for column in flat]
            self._move(*pieces, [n_steps[i].clone() for i, _ in parts])

        parallel_ranges(move, len(blocks))
        for n in n_steps:
            n.add_(1)


def _lie_in_rows(columns: tuple[list[Tensor], ...]) -> bool:
    return all(tensor.is_contiguous() and tensor.device.type == "cpu" for column in columns for tensor in column)
