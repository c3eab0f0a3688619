"""Synthetic brain graphs: patterns at fixed nodes (the paper's Figure 1) and patterns without a fixed position."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError, check_number, check_option
from isocapsnet.datasets.planting import (
    EFFECTS,
    MAX_COMPARED,
    MOVABLE,
    SMALLEST,
    WHOLE,
    Effect,
    Orientation,
    Placement,
    PlantedPattern,
    Planter,
)

_CONSTANT_LEVEL = 0.2


class PlantedGraphs(NamedTuple):
    """What :func:`make_planted_graphs` returns.

    Attributes
    ----------
    graphs : ndarray of float32 (n_graphs, n_nodes, n_nodes)
    labels : ndarray of int (n_graphs,)
        0 or 1.
    truth : tuple of PlantedPattern
        ``n_patterns`` for each effect (one for "mean" and "hub"), in the order existence, orientation, null, mean, hub,
        motif, wiring. "wiring" has two for each: that of class 0, then that of class 1.
    sites : ndarray of int (n_graphs,)
    occurrences : tuple of ndarray of int (n_graphs, n_pattern_nodes)
        Where each graph carries each pattern of ``truth``: ``nodes = occurrences[p][i]`` has the node of graph i for
        each node of pattern p, so that ``graphs[i][np.ix_(nodes, nodes)]`` is background + ``truth[p].pattern`` +
        noise. -1 if the graph does not carry the pattern: ``occurrences[p][:, 0] >= 0`` are its carriers.

    Examples
    --------
    >>> from isocapsnet import make_planted_graphs
    >>> planted = make_planted_graphs(8, effect="motif", placement="free", prevalence=0.5, random_state=0)
    >>> planted.labels
    array([0, 1, 0, 0, 1, 1, 1, 0])
    >>> planted.occurrences[0][5:]
    array([[10,  0,  5, 16],
           [22,  5,  7,  4],
           [-1, -1, -1, -1]])
    """

    graphs: NDArray[np.float32]
    labels: NDArray[np.int64]
    truth: tuple[PlantedPattern, ...]
    sites: NDArray[np.int64]
    occurrences: tuple[NDArray[np.int64], ...]


def make_planted_graphs(
    n_graphs: int = 240,
    n_nodes: int = 24,
    *,
    kernel_size: int = 4,
    n_patterns: int = 1,
    effect: Effect | Sequence[Effect] = "existence",
    placement: Placement | None = None,
    orientation: Orientation | None = None,
    prevalence: float = 1.0,
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
        The number of graphs, and of nodes in each of them.
    kernel_size : int
        Nodes of a pattern, at least 2 (3 for "orientation": a single edge has no orientation; 4 to 7 for "wiring": all
        triangles with the same weights are isomorphic).
    n_patterns : int
        Different patterns of each effect. No two of them share a node in any graph.
    effect : str or sequence of str
        The difference between the classes, or several of them.

        - "existence": only class 1 has the patterns, at the same nodes in all graphs.
        - "orientation": both classes have the same patterns at the same nodes, which are permuted in class 1 (the
          paper's Figure 1).
        - "motif": only class 1 has the patterns, at nodes and in an order that differ between graphs.
        - "wiring": both classes have a pattern, placed like a motif. Those of the two classes have the same edge
          weights, wired differently: their isomorphic distance is above 1.2.
        - "mean": all edges of class 1 are shifted.
        - "hub": all edges of one node are shifted in class 1.
        - "null": both classes have the same patterns, and labels are random.

        The shift of "mean" and "hub" is as large as one pattern: the sum of squares over edges is the same.
    placement : {"fixed", "slot", "free"}, optional
        Where "motif", "wiring" and "null" have their patterns. "fixed": at the same nodes in all graphs (default of
        "null"). "slot": in another diagonal block of neighbouring nodes in each graph, at a multiple of ``kernel_size``
        (default of the others). "free": at nodes drawn at random in each graph.
    orientation : {"fixed", "random"}, optional
        The order of the pattern's nodes there. "fixed": that of the node indices (default of "null"). "random": drawn
        for each graph (default of "motif" and "wiring").
    prevalence : float
        Share of class 1 that carries the effect, met exactly up to rounding; the others are as class 0. Several
        patterns or effects are dealt out in turn, so that as few graphs as possible have none of them: with 0.5, every
        graph of class 1 has one of two. For "null" it is a share of all graphs.
    signal_to_noise : float
        Largest absolute pattern entry over the standard deviation of the Gaussian noise, which is independent
        for every entry of the upper triangle with diagonal; ``np.inf`` means no noise.
    class_balance : float
        Share of class 1, met exactly up to rounding, with at least one graph in each class.
    background : {"blocks", "constant"}
        "blocks": two hemispheres of modules, the same for all graphs; edges are stronger inside a hemisphere,
        and inside a module and its mirror image. "constant": one value for all edges.
    n_sites : int
        Acquisition sites; graphs are spread over them evenly, independently of the labels.
    site_effect : float
        Standard deviation of the offset that each site adds to each edge, and of the logarithm of the factor
        by which it scales the noise.
    missing_nodes : int
        Nodes without signal in each graph, drawn anew for each: rows and columns of zeros.
    random_state : int or None
        Seed; the same seed gives the same graphs.

    Returns
    -------
    PlantedGraphs
        Graphs, labels, sites, the planted patterns, and where each graph has them.
    """
    effects = _check_effects(effect, placement, orientation)
    check_option("background", background, ("blocks", "constant"))
    check_number("n_graphs", n_graphs, low=2, integer=True)
    smallest = max(SMALLEST.get(name, 2) for name in effects)
    largest = MAX_COMPARED if "wiring" in effects else np.inf
    check_number("kernel_size", kernel_size, low=smallest, high=largest, integer=True)
    check_number("n_nodes", n_nodes, low=kernel_size, integer=True)
    # Each pattern has nodes of its own, if need be a block on the diagonal.
    n_local = sum(name not in WHOLE for name in effects)
    check_number("n_patterns", n_patterns, low=1, high=n_nodes // kernel_size // max(n_local, 1), integer=True)
    check_number("prevalence", prevalence, low=0, high=1, open_low=True)
    check_number("signal_to_noise", signal_to_noise, low=0, open_low=True)
    check_number("class_balance", class_balance, low=0, high=1)
    check_number("n_sites", n_sites, low=1, high=n_graphs, integer=True)
    check_number("site_effect", site_effect, low=0)
    check_number("missing_nodes", missing_nodes, low=0, high=n_nodes - 1, integer=True)
    # One stream per ingredient: changing the noise, say, leaves truth and labels as they were.
    truth_rng, label_rng, noise_rng, site_rng, missing_rng, place_rng = np.random.default_rng(random_state).spawn(6)

    n_positive = min(max(round(n_graphs * class_balance), 1), n_graphs - 1)
    labels = label_rng.permutation(np.repeat([1, 0], [n_positive, n_graphs - n_positive])).astype(np.int64)
    sites = site_rng.permutation(np.arange(n_graphs) % n_sites).astype(np.int64)

    planter = Planter(
        labels, n_nodes, kernel_size, n_patterns, placement, orientation, prevalence, truth_rng, place_rng
    )
    for name in effects:
        planter.plant(name)
    graphs = np.repeat(_background(n_nodes, background)[None], n_graphs, axis=0)
    for (_, pattern, _), positions in zip(planter.truth, planter.occurrences, strict=True):
        [carriers] = np.nonzero(positions[:, 0] >= 0)
        nodes = positions[carriers]
        graphs[carriers[:, None, None], nodes[:, :, None], nodes[:, None, :]] += pattern
    if np.isfinite(signal_to_noise):
        noise_scale = np.exp(site_effect * site_rng.standard_normal(n_sites))[sites] / signal_to_noise
        graphs += noise_scale[:, None, None].astype(np.float32) * _symmetric_noise(noise_rng, n_graphs, n_nodes)
    if site_effect:
        graphs += np.float32(site_effect) * _symmetric_noise(site_rng, n_sites, n_nodes)[sites]
    for graph in graphs if missing_nodes else ():
        silent = missing_rng.choice(n_nodes, size=missing_nodes, replace=False)
        graph[silent] = graph[:, silent] = 0
    return PlantedGraphs(graphs, labels, tuple(planter.truth), sites, tuple(planter.occurrences))


def _check_effects(
    effect: Effect | Sequence[Effect], placement: Placement | None, orientation: Orientation | None
) -> list[str]:
    """The effects in the order of :data:`EFFECTS`, those at fixed nodes first."""
    asked = [effect] if isinstance(effect, str) else list(effect)
    for name in asked:
        check_option("effect", name, tuple(EFFECTS))
    if not asked or len(set(asked)) < len(asked) or ("null" in asked and len(asked) > 1):
        raise InputError(f"effect={effect!r} cannot be planted; name each effect once, and null alone.")
    for option, value, allowed in (
        ("placement", placement, ("fixed", "slot", "free")),
        ("orientation", orientation, ("fixed", "random")),
    ):
        check_option(option, value, (None, *allowed))
        if value not in (None, "fixed") and not set(asked) & set(MOVABLE):
            raise InputError(f"{option}={value!r} does not apply to effect={effect!r}; it is for {', '.join(MOVABLE)}.")
    return [name for name in EFFECTS if name in asked]


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
