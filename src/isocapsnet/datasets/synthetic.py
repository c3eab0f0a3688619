"""Brain graphs with a known answer: planted patterns (the paper's Figure 1)."""

from itertools import permutations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import check_number, check_option

_CONSTANT_LEVEL = 0.2


class PlantedPattern(NamedTuple):
    """One planted sub-graph.

    Attributes
    ----------
    nodes : ndarray of int (kernel_size,)
        A contiguous range of node indices that starts at a multiple of ``kernel_size``.
    pattern : ndarray (kernel_size, kernel_size)
        Symmetric signed weights with zero diagonal, all edges different, largest absolute entry 1.
    permutation : ndarray of int (kernel_size,)
        Class 1 holds ``pattern[permutation][:, permutation]``; the identity unless effect is "orientation".
    """

    nodes: NDArray[np.int64]
    pattern: NDArray[np.float32]
    permutation: NDArray[np.int64]


class PlantedGraphs(NamedTuple):
    """What :func:`make_planted_graphs` returns.

    Attributes
    ----------
    graphs : ndarray of float32 (n_graphs, n_nodes, n_nodes)
    labels : ndarray of int (n_graphs,)
        0 or 1.
    truth : tuple of PlantedPattern
    sites : ndarray of int (n_graphs,)
    """

    graphs: NDArray[np.float32]
    labels: NDArray[np.int64]
    truth: tuple[PlantedPattern, ...]
    sites: NDArray[np.int64]


def make_planted_graphs(
    n_graphs: int = 240,
    n_nodes: int = 24,
    *,
    kernel_size: int = 4,
    n_patterns: int = 1,
    effect: Literal["existence", "orientation", "null"] = "existence",
    signal_to_noise: float = 5.0,
    class_balance: float = 0.5,
    background: Literal["blocks", "constant"] = "blocks",
    n_sites: int = 1,
    site_effect: float = 0.0,
    missing_nodes: int = 0,
    random_state: int | None = 0,
) -> PlantedGraphs:
    """Make symmetric graphs of two classes whose only difference is known.

    Every graph is background + patterns + noise, in units of the patterns' largest absolute entry (1).

    Parameters
    ----------
    n_graphs, n_nodes : int
    kernel_size : int
        Nodes of a pattern, at least 2 (3 for "orientation": a single edge has no orientation).
    n_patterns : int
        Patterns, each in its own diagonal block at a multiple of ``kernel_size``.
    effect : {"existence", "orientation", "null"}
        "existence": only class 1 has the patterns. "orientation": both classes have the same patterns at the same
        nodes, which are permuted in class 1 (the paper's Figure 1). "null": both classes have the same patterns, and
        labels are random.
    signal_to_noise : float
        Largest absolute pattern entry over the standard deviation of the Gaussian noise, which is independent
        for every entry of the upper triangle with diagonal; ``np.inf`` means no noise.
    class_balance : float
        Share of class 1, met exactly up to rounding, with at least one graph in each class.
    background : {"blocks", "constant"}
        "blocks": two hemispheres of modules, the same for all graphs; edges are stronger inside a hemisphere,
        and inside a module and its mirror image. "constant": one value everywhere.
    n_sites : int
        Acquisition sites; graphs are spread over them evenly, independently of the labels.
    site_effect : float
        Standard deviation of the offset that each site adds to each edge, and of the logarithm of the factor
        by which it scales the noise.
    missing_nodes : int
        Nodes without signal in each graph, drawn anew for each: rows and columns of zeros.
    random_state : int or None

    Returns
    -------
    PlantedGraphs
    """
    check_option("effect", effect, ("existence", "orientation", "null"))
    check_option("background", background, ("blocks", "constant"))
    check_number("n_graphs", n_graphs, low=2, integer=True)
    check_number("kernel_size", kernel_size, low=3 if effect == "orientation" else 2, integer=True)
    check_number("n_nodes", n_nodes, low=kernel_size, integer=True)
    # Each pattern has its own block on the diagonal.
    check_number("n_patterns", n_patterns, low=1, high=n_nodes // kernel_size, integer=True)
    check_number("signal_to_noise", signal_to_noise, low=0, open_low=True)
    check_number("class_balance", class_balance, low=0, high=1)
    check_number("n_sites", n_sites, low=1, high=n_graphs, integer=True)
    check_number("site_effect", site_effect, low=0)
    check_number("missing_nodes", missing_nodes, low=0, high=n_nodes - 1, integer=True)
    # One stream per ingredient: changing the noise, say, leaves truth and labels as they were.
    truth_rng, label_rng, noise_rng, site_rng, missing_rng = np.random.default_rng(random_state).spawn(5)

    truth = _draw_truth(truth_rng, n_nodes, kernel_size, n_patterns, oriented=effect == "orientation")
    n_positive = min(max(round(n_graphs * class_balance), 1), n_graphs - 1)
    labels = label_rng.permutation(np.repeat([1, 0], [n_positive, n_graphs - n_positive])).astype(np.int64)
    sites = site_rng.permutation(np.arange(n_graphs) % n_sites).astype(np.int64)

    class_graphs = np.stack([_background(n_nodes, background)] * 2)
    for nodes, pattern, permutation in truth:
        block = np.ix_(nodes, nodes)
        class_graphs[0][block] += 0 if effect == "existence" else pattern
        class_graphs[1][block] += pattern[permutation][:, permutation]
    graphs = class_graphs[labels]
    if np.isfinite(signal_to_noise):
        noise_scale = np.exp(site_effect * site_rng.standard_normal(n_sites))[sites] / signal_to_noise
        graphs += noise_scale[:, None, None].astype(np.float32) * _symmetric_noise(noise_rng, n_graphs, n_nodes)
    if site_effect:
        graphs += np.float32(site_effect) * _symmetric_noise(site_rng, n_sites, n_nodes)[sites]
    for graph in graphs if missing_nodes else ():
        silent = missing_rng.choice(n_nodes, size=missing_nodes, replace=False)
        graph[silent] = graph[:, silent] = 0
    return PlantedGraphs(graphs, labels, truth, sites)


def _draw_truth(
    rng: np.random.Generator, n_nodes: int, kernel_size: int, n_patterns: int, *, oriented: bool
) -> tuple[PlantedPattern, ...]:
    """Draw nodes, patterns and, when ``oriented``, the permutations that change them most."""
    identity = np.arange(kernel_size)
    slots = rng.choice(n_nodes // kernel_size, size=n_patterns, replace=False)
    truth = []
    for slot in np.sort(slots):
        # With all edges different and three nodes or more, only the identity maps the pattern onto itself, so
        # the winning permutation is unique; weights that sum to zero leave the mean edge uninformative.
        rows, columns = np.triu_indices(kernel_size, k=1)
        pattern = np.zeros((kernel_size, kernel_size), dtype=np.float32)
        pattern[rows, columns] = rng.permutation(np.linspace(1, -1, len(rows)))
        pattern += pattern.T
        permutation = _farthest_permutation(pattern) if oriented else identity
        truth.append(PlantedPattern(slot * kernel_size + identity, pattern, permutation))
    return tuple(truth)


def _farthest_permutation(pattern: NDArray[np.float32]) -> NDArray[np.int64]:
    """The permutation with the largest ‖pattern[p][:, p] - pattern‖: the effect is then alike for every seed."""
    kernel_size = len(pattern)
    # Seven nodes have 5,040 permutations; for larger patterns a rotation of the nodes must do.
    if kernel_size > 7:
        return np.roll(np.arange(kernel_size), 1)
    table = np.array(list(permutations(range(kernel_size))))
    agreement = (pattern[table[:, :, None], table[:, None, :]] * pattern).sum(axis=(1, 2))
    return table[agreement.argmin()].astype(np.int64)


def _background(n_nodes: int, kind: str) -> NDArray[np.float32]:
    """What all graphs share ``(n_nodes, n_nodes)``."""
    if kind == "constant":
        return np.full((n_nodes, n_nodes), _CONSTANT_LEVEL, dtype=np.float32)
    half = (n_nodes + 1) // 2
    n_modules = max(1, half // 6)
    hemisphere = np.arange(n_nodes) // half
    module = np.arange(n_nodes) % half * n_modules // half
    same_hemisphere = np.equal.outer(hemisphere, hemisphere)
    same_module = np.equal.outer(module, module)
    return (0.1 + 0.1 * same_hemisphere + 0.3 * same_module).astype(np.float32)


def _symmetric_noise(rng: np.random.Generator, n_graphs: int, n_nodes: int) -> NDArray[np.float32]:
    """Standard normal ``(n_graphs, n_nodes, n_nodes)``, independent in the upper triangle with diagonal."""
    noise = np.triu(rng.standard_normal((n_graphs, n_nodes, n_nodes), dtype=np.float32))
    return noise + np.triu(noise, k=1).swapaxes(1, 2)
