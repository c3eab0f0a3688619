"""Evidence cards of motifs from the explanations of several fits."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet.evaluation.statistics import LEVEL
from isocapsnet.explanation.alignment import compare_shapes
from isocapsnet.explanation.cards import Agreement, Carrier, MotifCard
from isocapsnet.explanation.combination import has_two_of_each, with_interval
from isocapsnet.explanation.contrasts import effect_size
from isocapsnet.explanation.fits import FitExplanation
from isocapsnet.explanation.motifs import Motifs
from isocapsnet.explanation.stability import (
    MIN_FITS,
    combine_p_values,
    describe_shape,
    judge,
    judge_agreement,
    mean_over_pairs,
    permutation_p_values,
)

#: Patterns whose cosine is at least this, in the best order of nodes, are one motif.
SIMILAR = 0.95
# There are at most this many cards, and none but the first of a motif with less than this part of all importance.
_CARDS = 3
_LEAST_IMPORTANCE = 0.25
# Sets of shuffled patterns for the null distribution of the agreement of shapes.
_DRAWS = 199


@dataclass(frozen=True)
class _Fit:
    """A motif in one fit, in the order of nodes of the reference."""

    explanation: FitExplanation
    subjects: NDArray[Any]
    evidence: NDArray[np.float64]
    nearest: int
    order: NDArray[np.int64]


def combine_motifs(
    explanations: Sequence[FitExplanation],
    tests: Sequence[ArrayLike],
    subjects: Sequence[str] = (),
    reference: Motifs | None = None,
    random_state: int = 0,
    class_names: Sequence[str] = (),
) -> list[MotifCard]:
    """One card per important motif, from fits of one method to one dataset.

    A motif is stable if it separates the classes of unseen graphs in nine of ten fits, or in all of fewer than ten
    (p <= 0.01 by shuffling labels within each fit, combined under any dependence and adjusted for the number of
    different motifs), and if its shape in the fits agrees better than 95 % of as many patterns with shuffled edges.

    Parameters
    ----------
    explanations : sequence of FitExplanation
    tests : sequence of array-like
        For each fit, the indices of the given graphs among all subjects.
    subjects : sequence of str, optional
        Names of all subjects.
    reference : Motifs, optional
        Those of the fit that the others are compared with; the first one by default.
    random_state : int
    class_names : sequence of str (n_classes,), optional
        Names of the classes in sentences; by default the labels that the fits were given.

    Returns
    -------
    list of MotifCard
        The most important first; empty if the motif form has weight 0 in all fits.
    """
    kinds = {index: kind for index, fit in enumerate(explanations) if (kind := _kind(fit)) is not None}
    if reference is not None:
        kinds = {index: kind for index, kind in kinds.items() if kind[0] == reference.patterns.shape}
    if not kinds:
        return []
    most, _ = Counter(kinds.values()).most_common(1)[0]
    chosen = [(explanations[index], np.asarray(tests[index])) for index, kind in kinds.items() if kind == most]
    n_without = sum(fit.motifs is None for fit in explanations)
    n_left_out = len(explanations) - len(chosen) - n_without
    target = reference or chosen[0][0].motifs
    assert target is not None
    groups = group_motifs(target)
    total = target.importance(np.arange(len(target.patterns))) or 1.0
    important = [
        members
        for rank, members in enumerate(groups[:_CARDS])
        if rank == 0 or target.importance(members) >= _LEAST_IMPORTANCE * total
    ]
    return [
        _make_card(
            target.patterns[members[0]],
            [_find(target.patterns[members[0]], fit, test) for fit, test in chosen],
            rank,
            subjects,
            random_state,
            class_names
            or [f"class {label}" if _is_number(label) else label for label in chosen[0][0].classes.tolist()],
            n_tests=len(groups),
            n_members=len(members),
            importance=target.importance(members) / total,
            n_left_out=n_left_out,
            n_without=n_without,
        )
        for rank, members in enumerate(important)
    ]


def group_motifs(motifs: Motifs) -> list[NDArray[np.int64]]:
    """Motifs that look alike, as indices of the members of each group; the most important group first.

    The most important group around a motif is taken, its members are removed, and so on. The first index of a group is
    the motif that the others are similar to.
    """
    _, cosines, _ = compare_shapes(motifs.patterns, motifs.patterns)
    is_left, groups = np.ones(len(cosines), dtype=bool), []
    while is_left.any():
        candidates = [
            np.concatenate([[index], others[others != index]])
            for index in np.flatnonzero(is_left)
            for others in [np.flatnonzero((cosines[index] >= SIMILAR) & is_left)]
        ]
        groups.append(max(candidates, key=motifs.importance))
        is_left[groups[-1]] = False
    return groups


def _kind(explanation: FitExplanation) -> tuple[Any, ...] | None:
    """What comparable fits have in common; None without motifs or with too few graphs of a class."""
    motifs = explanation.motifs
    if motifs is None or not has_two_of_each(explanation):
        return None
    return motifs.patterns.shape, motifs.logarithm, explanation.n_nodes, tuple(explanation.classes.tolist())


def _find(pattern: NDArray[np.float32], explanation: FitExplanation, test: NDArray[Any]) -> _Fit:
    """The motif of a fit that looks most like a pattern, with the evidence of all that look like it."""
    motifs = explanation.motifs
    assert motifs is not None
    _, cosines, orders = compare_shapes(pattern[None], motifs.patterns)
    nearest = int(cosines[0].argmax())
    members = np.union1d(np.flatnonzero(cosines[0] >= SIMILAR), [nearest])
    return _Fit(
        explanation=explanation,
        subjects=test[explanation.positions],
        evidence=motifs.evidence[:, :, members].sum(axis=2, dtype=np.float64),
        nearest=nearest,
        order=orders[0, nearest],
    )


def _make_card(
    pattern: NDArray[np.float32],
    fits: Sequence[_Fit],
    rank: int,
    names: Sequence[str],
    seed: int,
    class_names: Sequence[str],
    *,
    n_tests: int,
    n_without: int,
    **counts: Any,
) -> MotifCard:
    first = fits[0].explanation
    n_classes, n_fits = len(first.classes), len(fits) + n_without
    p_values = np.ones(n_fits)  # a motif form with weight 0 separates nothing
    effects = np.zeros(n_fits)
    for index, fit in enumerate(fits):
        evidence, codes = fit.evidence[..., None], fit.explanation.codes
        p_values[index] = permutation_p_values(evidence, codes, n_classes, seed + index)[0]
        effects[index] = effect_size(evidence, codes, n_classes)[0]
    p_value = min(1.0, n_tests * float(combine_p_values(p_values)))
    motifs = [fit.explanation.motifs for fit in fits if fit.explanation.motifs is not None]
    different = [part.patterns[[members[0] for members in group_motifs(part)]] for part in motifs]
    shape = agreement_of_motifs(pattern, different, seed) if len(fits) >= MIN_FITS else None
    carriers, n_graphs = _carriers(fits, names, n_classes)
    n_carriers = np.bincount([carrier.label for carrier in carriers], minlength=n_classes)
    nodes = np.array([carrier.nodes for carrier in carriers], dtype=np.int64)
    form = "" if shape is None else describe_shape(shape)
    verdict, sentence = judge(
        "motif", "the motif form", p_values, p_value, n_without, shape, differs=form, agrees=f"and {form}"
    )
    class_of = {
        s: c for fit in fits for s, c in zip(fit.subjects.tolist(), fit.explanation.codes.tolist(), strict=True)
    }
    n_subjects = np.bincount(list(class_of.values()), minlength=n_classes)
    return MotifCard(
        motif=rank,
        matrix=_mean("patterns", fits).tolist(),
        learned=_mean("learned", fits).tolist(),
        unit="log(1 + edge), natural logarithm" if motifs[0].logarithm else "units of the edges",
        n_fits=n_fits,
        n_without=n_without,
        n_separating=int((p_values <= LEVEL).sum()),
        p_value=p_value,
        effect=with_interval(effects.mean(), n_subjects),
        shape=shape,
        n_graphs=n_graphs.tolist(),
        n_carriers=n_carriers.tolist(),
        favours=int((n_carriers / np.maximum(n_graphs, 1)).argmax()),
        region_shares=(np.bincount(nodes.ravel(), minlength=first.n_nodes) / max(len(carriers), 1)).tolist(),
        carriers=carriers,
        verdict=verdict,
        sentence=f"{sentence} {_occurrence(class_names, n_carriers, n_graphs)}",
        **counts,
    )


def _is_number(label: str) -> bool:
    return label.lstrip("+-").replace(".", "", 1).isdecimal()


def _occurrence(classes: Sequence[str], n_carriers: NDArray[np.int64], n_graphs: NDArray[np.int64]) -> str:
    """In how many graphs of each class the motif occurs."""
    parts = [f"{a} of {b} {name} graphs" for name, a, b in zip(classes, n_carriers, n_graphs, strict=True)]
    return f"It occurs in {', '.join(parts[:-1])} and {parts[-1]}."


def _mean(name: str, fits: Sequence[_Fit]) -> NDArray[np.float64]:
    """Mean over fits of a motif's matrix ``(k, k)``."""
    matrices = (getattr(fit.explanation.motifs, name)[fit.nearest][np.ix_(fit.order, fit.order)] for fit in fits)
    return np.mean(list(matrices), axis=0, dtype=np.float64)


def _carriers(fits: Sequence[_Fit], names: Sequence[str], n_classes: int) -> tuple[list[Carrier], NDArray[np.int64]]:
    """The graphs that carry the motif, and the number of graphs of each class; each subject from its first fit."""
    carriers, seen, n_graphs = [], set[int](), np.zeros(n_classes, dtype=np.int64)
    for fit in fits:
        motifs = fit.explanation.motifs
        assert motifs is not None
        for graph, subject in enumerate(fit.subjects.tolist()):
            if subject in seen:
                continue
            seen.add(subject)
            label, distance = int(fit.explanation.codes[graph]), float(motifs.distances[graph, fit.nearest])
            n_graphs[label] += 1
            if distance <= motifs.thresholds[fit.nearest]:
                name = str(names[subject]) if len(names) else f"subject {subject + 1}"
                carriers.append(Carrier(name, label, distance, motifs.nodes[graph, fit.nearest][fit.order].tolist()))
    return sorted(carriers, key=lambda carrier: carrier.distance), n_graphs


def agreement_of_motifs(pattern: NDArray[np.float32], stacks: Sequence[NDArray[np.float32]], seed: int) -> Agreement:
    """How similar the patterns of the fits that are nearest to ``pattern`` are: their mean cosine over pairs of fits.

    Stacks are ``(n_motifs, k, k)``, one for each fit, and hold different motifs. In the null distribution the edges of
    all their patterns are shuffled, and the nearest ones are taken again from as many.
    """
    rng = np.random.default_rng(seed)
    draws = ([shuffle_edges(stack, rng) for stack in stacks] for _ in range(_DRAWS))
    null = np.array([_agreement(_nearest_to(pattern, draw)) for draw in draws])
    return judge_agreement(_agreement(_nearest_to(pattern, stacks)), null)


def _nearest_to(pattern: NDArray[np.float32], stacks: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """From each stack ``(n_motifs, k, k)`` the pattern with the largest cosine."""
    [cosines] = compare_shapes(pattern[None], np.concatenate(stacks))[1]
    parts = np.split(cosines, np.cumsum([len(stack) for stack in stacks[:-1]]))
    return np.stack([stack[part.argmax()] for stack, part in zip(stacks, parts, strict=True)])


def _agreement(patterns: NDArray[np.float32]) -> NDArray[np.float64]:
    return mean_over_pairs(compare_shapes(patterns, patterns)[1])


def shuffle_edges(patterns: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Patterns ``(n, k, k)`` with their edges in random order; the two entries of an edge stay together."""
    rows, columns = np.triu_indices(patterns.shape[-1], k=1)
    order = rng.permuted(np.tile(np.arange(len(rows)), (len(patterns), 1)), axis=1)
    shuffled = np.zeros_like(patterns)
    each = np.arange(len(patterns))[:, None]
    shuffled[each, rows, columns] = patterns[each, rows[order], columns[order]]
    shuffled[each, columns, rows] = patterns[each, columns[order], rows[order]]
    return shuffled
