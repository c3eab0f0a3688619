"""Routing with a weight matrix per window, fused: votes are made where they are used and never stored.

The vote of a window is û = excess · Σ selected rows of W + γ · Σ all rows of W. A tile of windows, one per lane of a
vector, stays in the nearest caches while the graphs of the batch pass by. What goes to memory is one sum per graph and
class, and in the backward pass the couplings of some graphs at a time. With more than eight nodes, the rows of each
permutation go to memory too.
"""

import math
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from isocapsnet.functional.capsule import reverse_routing, trace_routing
from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._buffers import give_back, take
from isocapsnet.functional.kernels._cpu_votes import pack_tiles, scatter_tiles, sum_chunks, sum_evenly
from isocapsnet.functional.kernels._takers import Taker, taker_of, windows_of_class
from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.functional.kernels.cpu_permutations import permutation_at
from isocapsnet.functional.kernels.eager import compact_dtype
from isocapsnet.functional.permutations import TABLE_SIZE, permutation_number, permutation_table

# Tiles are summed in this many chunks, added up in order: the result does not depend on the number of threads.
_CHUNKS = 32
# Couplings of up to this many bytes are kept for the backward pass, and those of at least this many graphs.
_KEPT_BYTES, _LEAST_GRAPHS = 128 * 1024**2, 8
# Bytes of a gradient that are taken at a time: few enough to stay in a cache.
_TAKEN_BYTES = 4 * 1024**2


class Windows(NamedTuple):
    """Primary capsules and weights as the kernels read them; windows of all templates in a row, in tiles.

    Attributes
    ----------
    excess : Tensor (n_tiles, n_graphs, lanes)
        By how much the capsule's value exceeds the padding γ; zero after the last window.
    permutation : Tensor (n_tiles, n_graphs, lanes), as small integers
        The number of each permutation among those in ``rows``.
    rows : Tensor (n_permutations * k,), as small integers
        The rows of W that a permutation selects, k for each: of all k! or, of large templates, of those at hand.
    weight : Tensor (n_classes, n_windows, k², capsule_size)
    padding : float
    kernel_size : int
    """

    excess: Tensor
    permutation: Tensor
    rows: Tensor
    weight: Tensor
    padding: float
    kernel_size: int

    @classmethod
    def of(cls, value: Tensor, permutation: Tensor, padding: float, kernel_size: int, weight: Tensor) -> "Windows":
        """From capsules ``(n_graphs, n_templates, n, n)`` and weights ``(n_classes, n_templates, n², k², size)``."""
        values, numbers = value.detach().flatten(1).contiguous(), permutation.flatten(1).contiguous()
        lanes = simd.VECTOR_BYTES // values.element_size()
        excess = values.new_empty(-(-values.shape[1] // lanes), len(values), lanes)
        packed = torch.empty(excess.shape, dtype=compact_dtype(kernel_size))
        arguments = (
            values.flatten().numpy(),
            numbers.flatten().numpy(),
            values.numpy().dtype.type(padding),
            len(values),
            values.shape[1],
            excess.flatten().numpy(),
            packed.flatten().numpy(),
        )
        parallel_ranges(lambda start, stop: pack_tiles(*arguments, start, stop), len(excess))
        numbered = _selected_rows(packed, kernel_size)
        return cls(excess, *numbered, weight.detach().flatten(1, 2).contiguous(), padding, kernel_size)

    def capsules(self) -> tuple[Tensor, Tensor, Tensor]:
        """Values and permutations ``(n_graphs, n_windows)`` and weights again, as they came."""
        n_windows = self.weight.shape[1]
        excess, places = (x.transpose(0, 1).flatten(1)[:, :n_windows] for x in (self.excess, self.permutation))
        orders = self.rows.view(-1, self.kernel_size)[places.long()].long() % self.kernel_size
        return excess + self.padding, permutation_number(orders), self.weight

    def arrays(self) -> tuple[Any, Any, Any, Any, Any, Any, int, int, int]:
        """What every kernel begins with; tuples tell the compiler by their lengths k and vectors per capsule."""
        return (
            self.excess.flatten().numpy(),
            self.permutation.flatten().numpy(),
            self.weight.flatten().numpy(),
            self.weight.numpy().dtype.type(self.padding),
            self.rows.numpy(),
            ((None,) * self.kernel_size, (None,) * (self.weight[0, 0, 0].nbytes // simd.VECTOR_BYTES)),
            len(self.weight),
            self.weight.shape[1],
            self.excess.shape[1],
        )


def _selected_rows(number: Tensor, kernel_size: int) -> tuple[Tensor, Tensor]:
    """``permutation`` and ``rows`` of :class:`Windows` for permutations with these numbers."""
    if kernel_size <= TABLE_SIZE:
        return number, _rows_of_all(kernel_size)
    rows = _as_rows(permutation_at(number, kernel_size))
    return torch.arange(number.numel(), dtype=torch.int32).view_as(number), rows


@lru_cache(maxsize=TABLE_SIZE)
def _rows_of_all(kernel_size: int) -> Tensor:
    with torch.inference_mode(False):  # also used in training, whoever asks first
        return _as_rows(permutation_table(kernel_size))


def _as_rows(orders: Tensor) -> Tensor:
    k = orders.shape[-1]
    dtype = torch.uint8 if k * k <= 256 else torch.int16
    return (orders.to(dtype) + k * torch.arange(k, dtype=dtype)).flatten()


def fits(weight: Tensor) -> bool:
    """Whether the kernels take these weights: a capsule must fill whole vectors."""
    size = weight.shape[-1] * weight.element_size()
    return weight.dtype in (torch.float32, torch.float64) and size % simd.VECTOR_BYTES == 0


class Couplings(NamedTuple):
    """What is kept for the backward pass of some graphs, from ``first_graph`` on.

    Attributes
    ----------
    factors : Tensor (n_tiles, n_graphs, n_classes, 2 · (iterations - 1), lanes)
        α and the gradient for the logits, for every iteration but the first.
    first_graph : int
    """

    factors: Tensor
    first_graph: int = 0

    @staticmethod
    def shape(windows: Windows, iterations: int, n_graphs: int) -> tuple[int, ...]:
        """That of the factors."""
        n_tiles, _, lanes = windows.excess.shape
        return n_tiles, n_graphs, len(windows.weight), 2 * (iterations - 1), lanes

    @classmethod
    def at_once(cls, windows: Windows, iterations: int) -> int:
        """The number of graphs whose couplings may be kept at a time."""
        each = math.prod(cls.shape(windows, iterations, 1)) * windows.excess.element_size()
        return max(_LEAST_GRAPHS, _KEPT_BYTES // max(1, each))

    @classmethod
    def of(cls, windows: Windows, iterations: int, graphs: slice) -> "Couplings":
        """Room for those of some graphs."""
        shape = cls.shape(windows, iterations, graphs.stop - graphs.start)
        return cls(take(windows.excess, *shape), graphs.start)


def bytes_of_couplings(weight: Tensor, iterations: int, n_graphs: int) -> int:
    """Bytes of the :class:`Couplings` that are in memory at a time."""
    n_classes, n_templates, n_windows, _, _ = weight.shape
    lanes = simd.VECTOR_BYTES // weight.element_size()
    each = -(-n_templates * n_windows // lanes) * simd.VECTOR_BYTES * n_classes * 2 * max(0, iterations - 1)
    return min(n_graphs * each, max(_LEAST_GRAPHS * each, _KEPT_BYTES))


def iterate(
    windows: Windows, iterations: int, scale: float, keep: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All iterations of :func:`~isocapsnet.functional.capsule.dynamic_routing`.

    Returns
    -------
    capsules : Tensor (n_graphs, n_classes, capsule_size)
    contexts, sums : Tensor (iterations, n_graphs, n_classes, capsule_size)
        The context and Σ α û of each iteration.
    factors : Tensor
        Those of :class:`Couplings`, if they are to be kept for :func:`backward` and are not too large; otherwise empty.
    """
    n_graphs = windows.excess.shape[1]
    kept = keep and iterations > 1 and n_graphs <= Couplings.at_once(windows, iterations)
    couplings = Couplings.of(windows, iterations, slice(0, n_graphs)) if kept else None
    n_classes, _, _, size = windows.weight.shape
    zeros = windows.weight.new_zeros(n_graphs, n_classes, size)

    def attend_next(context: Tensor, iteration: int) -> Tensor:
        return attend(windows, context, None, couplings, iteration) if iteration else attend_evenly(windows)

    capsules, contexts, sums = trace_routing(attend_next, zeros, iterations, scale)
    return capsules, contexts, sums, zeros.new_empty(0) if couplings is None else couplings.factors


def backward(
    windows: Windows, contexts: Tensor, sums: Tensor, factors: Tensor, grad_capsules: Tensor, scale: float
) -> tuple[Tensor, Tensor | None]:
    """Gradients for the capsules' values ``(n_graphs, n_windows)`` and the weights, from that for the class capsules.

    The other arguments are what :func:`iterate` returns. Couplings that it did not keep are computed again, for some
    graphs at a time; otherwise, a taker of the weights' gradient gets it in parts, and the result has none.
    """
    n_graphs, iterations = windows.excess.shape[1], len(sums)
    grad_value = windows.excess.new_empty(n_graphs, windows.weight.shape[1])
    taker = taker_of(windows.weight) if len(factors) or iterations == 1 else None
    if taker is not None:
        attend_back = partial(_attend_back, windows, contexts, Couplings(factors), True)
        grads = reverse_routing(attend_back, sums, grad_capsules, scale)
        _scatter_to(taker, windows, contexts, grads, Couplings(factors), grad_value)
        give_back(factors)
        return grad_value, None
    n_parts = 1 if len(factors) else -(-n_graphs // Couplings.at_once(windows, iterations))
    grad_weight = take(windows.weight, *windows.weight.shape)
    if n_parts == 0:
        grad_weight.zero_()
    for part in range(n_parts):
        own = slice(n_graphs * part // n_parts, n_graphs * (part + 1) // n_parts)
        couplings = Couplings(factors) if len(factors) else Couplings.of(windows, iterations, own)
        is_coupled = len(factors) > 0
        attend_back = partial(_attend_back, windows, contexts[:, own], couplings, is_coupled)
        grads = reverse_routing(attend_back, sums[:, own], grad_capsules[own], scale)
        _scatter(windows, contexts[:, own], grads, couplings, grad_value, grad_weight)
        give_back(couplings.factors)
    return grad_value, grad_weight


def _attend_back(
    windows: Windows, contexts: Tensor, couplings: Couplings, is_coupled: bool, grad: Tensor, iteration: int
) -> Tensor:
    return attend(windows, contexts[iteration], grad, couplings, iteration, is_coupled)


def attend_evenly(windows: Windows) -> Tensor:
    """Σ α û over windows with the couplings of zero logits: ``(n_graphs, n_classes, capsule_size)``."""
    n_classes, _, _, size = windows.weight.shape
    sums = windows.weight.new_empty(_CHUNKS, windows.excess.shape[1], n_classes, size)
    arguments = *windows.arrays(), sums.flatten(1).numpy()
    parallel_ranges(lambda start, stop: sum_evenly(*arguments, start, stop), _CHUNKS)
    return sums.sum(dim=0)


def attend(
    windows: Windows,
    context: Tensor,
    grad: Tensor | None = None,
    couplings: Couplings | None = None,
    iteration: int = 1,
    is_coupled: bool = False,
) -> Tensor:
    """Σ α û over windows, with α the leaky softmax of û·context over classes; or the gradient for the context.

    Parameters
    ----------
    windows : Windows
    context : Tensor (n_graphs, n_classes, capsule_size)
    grad : Tensor (n_graphs, n_classes, capsule_size), optional
        Gradient of a loss for Σ α û. With it, the result is the gradient for the context, Σ (∂loss/∂logit) û.
    couplings : Couplings, optional
        Where α and ∂loss/∂logit of this iteration are kept.
    iteration : int
        At least 1: the first, with number 0, has no couplings to keep.
    is_coupled : bool
        Whether α is read from the couplings, and not computed.

    Returns
    -------
    Tensor (n_graphs, n_classes, capsule_size)
    """
    sums = context.new_empty(_CHUNKS, *context.shape)
    nothing = sums.new_empty(1, 0)
    factors, first_graph = couplings or (nothing, 0)
    arguments = (
        *windows.arrays(),
        first_graph,
        len(context),
        context.flatten().numpy(),
        (nothing if grad is None else grad).flatten().numpy(),
        factors.flatten().numpy(),
        2 * (iteration - 1),
        factors.shape[-2],
        is_coupled,
        sums.flatten(1).numpy(),
    )
    parallel_ranges(lambda start, stop: sum_chunks(*arguments, start, stop), _CHUNKS)
    return sums.sum(dim=0)


def _scatter(
    windows: Windows, contexts: Tensor, grads: Tensor, couplings: Couplings, grad_value: Tensor, grad_weight: Tensor
) -> None:
    """Write the gradients for the values of some graphs, and add theirs for the weights, of all iterations at once.

    Those of the first graphs for the weights are written.
    """
    scattered = _scattered(windows, contexts, grads, couplings, grad_value)
    written: tuple[Any, ...] = grad_weight.flatten().numpy(), 0, windows.weight.shape[1]
    parallel_ranges(lambda *part: scatter_tiles(*scattered, *written, *part), len(windows.excess))


def _scatter_to(
    taker: Taker, windows: Windows, contexts: Tensor, grads: Tensor, couplings: Couplings, grad_value: Tensor
) -> None:
    """:func:`_scatter` of all graphs, where the gradient for the weights of some tiles is taken at a time."""
    scattered = _scattered(windows, contexts, grads, couplings, grad_value)
    n_tiles, _, lanes = windows.excess.shape
    n_classes, n_windows, *matrix = windows.weight.shape
    step = max(1, _TAKEN_BYTES // (windows.weight.nbytes // n_tiles))

    def scatter(start: int, stop: int) -> None:
        for tile in range(start * step, min(stop * step, n_tiles), step):
            first, last = tile * lanes, min((tile + step) * lanes, n_windows)
            weights = windows.weight.new_empty(n_classes, last - first, *matrix)
            written = weights.flatten().numpy(), first, last - first
            scatter_tiles(*(*scattered, *written, tile, min(tile + step, n_tiles)))
            for y in range(n_classes):
                own = partial(windows_of_class, shape=windows.weight.shape, y=y, windows=slice(first, last))
                taker(own, weights[y])

    parallel_ranges(scatter, -(-n_tiles // step))


def _scattered(
    windows: Windows, contexts: Tensor, grads: Tensor, couplings: Couplings, grad_value: Tensor
) -> tuple[Any, ...]:
    """What ``scatter_tiles`` begins with.

    The gradient for a vote is Σ α · grad + slope · context over iterations; in the first, the context is zero.
    """
    pairs = [grads[:1], *(x[r : r + 1] for r in range(1, len(grads)) for x in (grads, contexts))]
    vectors = torch.cat(pairs).permute(1, 2, 0, 3).contiguous()
    return (
        *windows.arrays(),
        couplings.first_graph,
        len(vectors),
        vectors.flatten().numpy(),
        couplings.factors.flatten().numpy(),
        len(pairs),
        couplings.first_graph == 0,
        grad_value.numpy(),
    )
