"""Patterns, and the nodes of each graph at which they are planted."""

from dataclasses import dataclass, field
from itertools import permutations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Effect = Literal["existence", "orientation", "null", "mean", "hub", "motif", "wiring"]
Placement = Literal["fixed", "slot", "free"]
Orientation = Literal["fixed", "random"]

#: Effect to the placement and orientation of its patterns, unless others are given.
EFFECTS: dict[str, tuple[Placement, Orientation]] = {
    "existence": ("fixed", "fixed"),
    "orientation": ("fixed", "fixed"),
    "null": ("fixed", "fixed"),
    "mean": ("fixed", "fixed"),
    "hub": ("fixed", "fixed"),
    "motif": ("slot", "random"),
    "wiring": ("slot", "random"),
}
#: Effects whose patterns can be placed and turned differently in each graph.
MOVABLE = ("null", "motif", "wiring")
#: Effects of the whole graph, which have one pattern of all nodes.
WHOLE = ("mean", "hub")
#: The smallest patterns that the effect can have. A single edge has no orientation, and all triangles with the same
#: weights are isomorphic.
SMALLEST = {"orientation": 3, "wiring": 4}
#: Patterns up to this size are compared in all their orientations, 5,040 for seven nodes.
MAX_COMPARED = 7
# Isomorphic distance of two wirings, in units of the largest weight. At four nodes three in ten pairs are closer.
_LEAST_DISTANCE = 1.2


class PlantedPattern(NamedTuple):
    """One planted sub-graph.

    Attributes
    ----------
    nodes : ndarray of int (n_pattern_nodes,)
        The nodes of a pattern that is at the same nodes in all graphs: a contiguous range that starts at a multiple of
        ``kernel_size``, or all nodes for "mean" and "hub" (the hub first). Empty if they differ between graphs.
    pattern : ndarray (n_pattern_nodes, n_pattern_nodes)
        Symmetric weights with zero diagonal. Those of ``kernel_size`` nodes are signed and all different, with a
        largest absolute entry of 1.
    permutation : ndarray of int (n_pattern_nodes,)
        If effect is "orientation", class 1 has ``pattern[permutation][:, permutation]``; otherwise the identity.
    """

    nodes: NDArray[np.int64]
    pattern: NDArray[np.float32]
    permutation: NDArray[np.int64]


@dataclass
class Planter:
    """Draws the patterns of one effect after the other, and the nodes at which each graph carries them.

    ``occurrences`` has an array ``(n_graphs, n_pattern_nodes)`` per pattern: the node of the graph for each node of the
    pattern, or -1 in graphs that do not carry it.
    """

    labels: NDArray[np.int64]
    n_nodes: int
    kernel_size: int
    n_patterns: int
    placement: Placement | None
    orientation: Orientation | None
    prevalence: float
    truth_rng: np.random.Generator
    place_rng: np.random.Generator
    truth: list[PlantedPattern] = field(default_factory=list)
    occurrences: list[NDArray[np.int64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._free_slots = np.arange(self.n_nodes // self.kernel_size)
        self._is_free = np.ones((len(self.labels), self.n_nodes), dtype=bool)
        self._dealing_order = self.place_rng.permutation(len(self.labels))
        self._n_dealt = 0

    def plant(self, effect: str) -> None:
        """Add the patterns of an effect."""
        if effect in WHOLE:
            self._plant_whole(effect)
            return
        placement, orientation = EFFECTS[effect]
        if effect in MOVABLE:
            placement, orientation = self.placement or placement, self.orientation or orientation
        nowhere = np.empty((self.n_patterns, 0), dtype=np.int64)
        for nodes in self._fixed_blocks() if placement == "fixed" else nowhere:
            positions = self._draw_positions(placement, orientation, nodes)
            pattern = draw_pattern(self.truth_rng, self.kernel_size)
            identity, is_carrier = np.arange(self.kernel_size), self._deal(effect)
            if effect == "orientation":
                permutation = farthest_permutation(pattern)
                turned = positions[:, np.argsort(permutation)]
                self._add(PlantedPattern(nodes, pattern, permutation), np.where(is_carrier[:, None], turned, positions))
            elif effect == "wiring":
                self._add(PlantedPattern(nodes, pattern, identity), positions, ~is_carrier)
                self._add(PlantedPattern(nodes, rewire(self.truth_rng, pattern), identity), positions, is_carrier)
            else:
                self._add(PlantedPattern(nodes, pattern, identity), positions, is_carrier)

    def _plant_whole(self, effect: str) -> None:
        """A shift of all edges, or of those of one node, with the sum of squares over edges of a usual pattern."""
        nodes = np.arange(self.n_nodes)
        is_shifted = ~np.eye(self.n_nodes, dtype=bool)
        if effect == "hub":
            nodes = np.roll(nodes, -int(self.truth_rng.integers(self.n_nodes)))
            is_shifted[1:, 1:] = False
        shift = np.sqrt(2 * np.sum(edge_weights(self.kernel_size) ** 2) / is_shifted.sum())
        positions = np.tile(nodes, (len(self.labels), 1))
        pattern = (shift * is_shifted).astype(np.float32)
        self._add(PlantedPattern(nodes, pattern, np.arange(self.n_nodes)), positions, self._deal(effect))

    def _add(
        self,
        pattern: PlantedPattern,
        positions: NDArray[np.int64],
        is_carrier: NDArray[np.bool_] | Literal[True] = True,
    ) -> None:
        self.truth.append(pattern)
        self.occurrences.append(np.where(np.reshape(is_carrier, (-1, 1)), positions, -1))

    def _fixed_blocks(self) -> NDArray[np.int64]:
        """The nodes of patterns that are at the same nodes in all graphs ``(n_patterns, kernel_size)``, in order."""
        slots = np.sort(self.truth_rng.choice(self._free_slots, size=self.n_patterns, replace=False))
        self._free_slots = np.setdiff1d(self._free_slots, slots)
        return self.kernel_size * slots[:, None] + np.arange(self.kernel_size)

    def _draw_positions(
        self, placement: Placement, orientation: Orientation, fixed: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The nodes of a pattern in each graph ``(n_graphs, kernel_size)``, none of them in another pattern."""
        positions = np.empty((len(self.labels), self.kernel_size), dtype=np.int64)
        for nodes, is_free in zip(positions, self._is_free, strict=True):
            if placement == "fixed":
                nodes[:] = fixed
            elif placement == "slot":
                in_slots = is_free[: self.n_nodes // self.kernel_size * self.kernel_size].reshape(-1, self.kernel_size)
                slot = self.place_rng.choice(np.flatnonzero(in_slots.all(axis=1)))
                nodes[:] = self.kernel_size * slot + np.arange(self.kernel_size)
            else:
                nodes[:] = np.sort(self.place_rng.choice(np.flatnonzero(is_free), self.kernel_size, replace=False))
            is_free[nodes] = False
            if orientation == "random":
                self.place_rng.shuffle(nodes)
        return positions

    def _deal(self, effect: str) -> NDArray[np.bool_]:
        """The graphs that carry a pattern ``(n_graphs,)``: a share of class 1, or of all graphs for "null".

        Patterns are assigned in turn, so that as few graphs as possible have none: with a prevalence of a half, every
        graph of class 1 has one of two patterns.
        """
        order = self._dealing_order
        candidates = order if effect == "null" else order[self.labels[order] == 1]
        share = self.prevalence * len(candidates)
        start = round(self._n_dealt * share)
        stop = max(round((self._n_dealt + 1) * share), start + 1)
        self._n_dealt += 1
        is_carrier = np.zeros(len(self.labels), dtype=bool)
        is_carrier[candidates[np.arange(start, stop) % len(candidates)]] = True
        return is_carrier


def edge_weights(kernel_size: int) -> NDArray[np.float64]:
    """The weights of a pattern's edges, all different; their sum is zero, so the mean edge says nothing."""
    return np.linspace(1, -1, kernel_size * (kernel_size - 1) // 2)


def draw_pattern(rng: np.random.Generator, kernel_size: int) -> NDArray[np.float32]:
    """Symmetric weights in random order ``(kernel_size, kernel_size)``.

    With all edges different and three nodes or more, only the identity maps the pattern onto itself, so the winning
    permutation is unique.
    """
    pattern = np.zeros((kernel_size, kernel_size), dtype=np.float32)
    pattern[np.triu_indices(kernel_size, k=1)] = rng.permutation(edge_weights(kernel_size))
    return pattern + pattern.T


def rewire(rng: np.random.Generator, pattern: NDArray[np.float32]) -> NDArray[np.float32]:
    """Another pattern with the same weights that no order of the nodes brings near to ``pattern``."""
    orientations = _orientations(pattern)[1]
    while True:
        other = draw_pattern(rng, len(pattern))
        if np.sqrt(np.square(orientations - other).sum(axis=(1, 2)).min()) > _LEAST_DISTANCE:
            return other


def farthest_permutation(pattern: NDArray[np.float32]) -> NDArray[np.int64]:
    """The permutation with the largest ‖pattern[p][:, p] - pattern‖: the effect is then alike for every seed."""
    if len(pattern) > MAX_COMPARED:
        return np.roll(np.arange(len(pattern)), 1)
    table, orientations = _orientations(pattern)
    return table[(orientations * pattern).sum(axis=(1, 2)).argmin()]


def _orientations(pattern: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """All permutations ``(k!, k)`` and ``pattern[p][:, p]`` for each ``(k!, k, k)``."""
    table = np.array(list(permutations(range(len(pattern)))), dtype=np.int64)
    return table, pattern[table[:, :, None], table[:, None, :]]
