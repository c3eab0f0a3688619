"""From the explanations of several fits to evidence cards."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from isocapsnet._validation import InputError
from isocapsnet.explain.alignment import Alignment, agreement_of_shapes, align_templates
from isocapsnet.explain.cards import Agreement, Effect, EvidenceCard, Orientation, Region, Window
from isocapsnet.explain.contrasts import contrast_members, effect_size, separation
from isocapsnet.explain.explanation import Explanation, Templates, over_regions
from isocapsnet.explain.stability import (
    LEVEL,
    agreement_of_places,
    combine_p_values,
    holm,
    permutation_p_values,
)
from isocapsnet.functional import permutation_table

#: Fits without which nothing is said about stability.
MIN_FITS = 3
_WINDOWS = 10
_REGIONS = 10


def combine(
    explanations: Sequence[Explanation],
    subjects: Sequence[ArrayLike] | None = None,
    reference: NDArray[np.float32] | None = None,
    random_state: int = 0,
) -> list[EvidenceCard]:
    """One card per template, from fits of one method on one dataset, each explained on graphs it did not see.

    A template is called stable when it separates the classes of unseen graphs in most fits (p <= 0.05, labels shuffled
    within each fit, combined under any dependence and adjusted over the templates) and the fits agree on the regions
    better than 95 % of the same maps moved to random places.

    Parameters
    ----------
    explanations : sequence of Explanation
        Those without templates are left out, as are those whose templates have another size than most.
    subjects : sequence of array-like, optional
        Per fit, who each given graph belongs to (a benchmark record's ``test``); without it the intervals count the
        graphs of the largest fit alone.
    reference : array (n_templates, k, k), optional
        Templates that give the places; the first fit's by default.
    random_state : int

    Returns
    -------
    list of EvidenceCard
        In the order of the reference's templates; empty without templates.
    """
    fits = _Fits.choose(explanations, subjects, reference)
    if fits is None:
        return []
    p_values = np.stack(
        [
            permutation_p_values(
                templates.template_evidence[:, :, alignment.order], codes, fits.n_classes, random_state + place
            )
            for place, (templates, alignment, codes) in enumerate(fits.parts())
        ]
    )
    adjusted = holm(combine_p_values(p_values))
    shapes: Sequence[Agreement | None] = [None] * len(adjusted)
    if len(fits.templates) >= MIN_FITS:
        matrices = np.stack([fit.matrices for fit in fits.templates])
        shapes = agreement_of_shapes(matrices, random_state, reference)
    return [
        _make_card(fits, place, p_values[:, place], float(adjusted[place]), shapes[place], random_state)
        for place in range(len(adjusted))
    ]


@dataclass(frozen=True)
class _Fits:
    """Fits with comparable templates, aligned to one reference."""

    templates: list[Templates]
    codes: list[NDArray[np.int64]]
    alignments: list[Alignment]
    n_classes: int
    n_nodes: int
    n_left_out: int
    class_counts: NDArray[np.int64]

    @classmethod
    def choose(
        cls,
        explanations: Sequence[Explanation],
        subjects: Sequence[ArrayLike] | None,
        reference: NDArray[np.float32] | None,
    ) -> "_Fits | None":
        if subjects is not None and len(subjects) != len(explanations):
            raise InputError(f"There are {len(explanations)} explanations but subjects for {len(subjects)}.")
        candidates = [place for place, explanation in enumerate(explanations) if explanation.templates is not None]
        if not candidates:
            return None
        kinds = {place: _kind(explanations[place]) for place in candidates}
        if reference is not None:
            candidates = [place for place in candidates if kinds[place][0] == reference.shape]
            if not candidates:
                raise InputError("No fit has templates of the reference's size and number.")
        most, _ = Counter(kinds[place] for place in candidates).most_common(1)[0]
        chosen = [place for place in candidates if kinds[place] == most]
        templates = [fit for place in chosen if (fit := explanations[place].templates) is not None]
        target = templates[0].matrices if reference is None else reference
        first = explanations[chosen[0]]
        return cls(
            templates=templates,
            codes=[explanations[place].codes for place in chosen],
            alignments=[align_templates(target, fit.matrices) for fit in templates],
            n_classes=len(first.classes),
            n_nodes=first.n_nodes,
            n_left_out=len(explanations) - len(chosen),
            class_counts=_count_classes(
                [explanations[place] for place in chosen],
                None if subjects is None else [subjects[place] for place in chosen],
            ),
        )

    def parts(self) -> list[tuple[Templates, Alignment, NDArray[np.int64]]]:
        return list(zip(self.templates, self.alignments, self.codes, strict=True))

    def pick(self, name: str, place: int) -> NDArray[np.float64]:
        """A map ``(n_fits, n, n)`` or ``(n_fits, n_classes, n, n)`` of the template at a place."""
        maps = [getattr(fit, name)[..., alignment.order[place], :, :] for fit, alignment, _ in self.parts()]
        return np.stack(maps).astype(np.float64)


def _kind(explanation: Explanation) -> tuple[tuple[int, ...], int, int, tuple[str, ...]]:
    assert explanation.templates is not None
    templates = explanation.templates
    return templates.matrices.shape, templates.stride, explanation.n_nodes, tuple(explanation.classes.tolist())


def _count_classes(explanations: Sequence[Explanation], subjects: Sequence[ArrayLike] | None) -> NDArray[np.int64]:
    """Different subjects of each class over all fits; without names, those of the largest fit."""
    n_classes = len(explanations[0].classes)
    if subjects is None:
        largest = max(explanations, key=lambda explanation: len(explanation.codes))
        return np.bincount(largest.codes, minlength=n_classes)
    known: dict[Hashable, int] = {}
    for explanation, names in zip(explanations, subjects, strict=True):
        known.update(zip(np.asarray(names)[explanation.positions].tolist(), explanation.codes.tolist(), strict=True))
    return np.bincount(list(known.values()), minlength=n_classes)


def _make_card(
    fits: _Fits, place: int, p_values: NDArray[np.float64], p_value: float, shape: Agreement | None, seed: int
) -> EvidenceCard:
    maps = np.stack(
        [
            separation(fit.region_evidence[:, :, alignment.order[place]], codes, fits.n_classes)
            for fit, alignment, codes in fits.parts()
        ]
    )
    effects = [
        effect_size(fit.template_evidence[:, :, alignment.order[place]], codes, fits.n_classes)
        for fit, alignment, codes in fits.parts()
    ]
    aligned = np.stack(
        [
            fit.matrices[alignment.order[place]][np.ix_(nodes, nodes)]
            for fit, alignment, _ in fits.parts()
            for nodes in [alignment.permutations[place]]
        ]
    )
    assessed = len(maps) >= MIN_FITS
    places = agreement_of_places(maps, seed) if assessed else None
    verdict, sentence = _judge(p_values, p_value, places, shape)
    return EvidenceCard(
        template=place,
        matrix=aligned.mean(axis=0).tolist(),
        matrix_deviation=aligned.std(axis=0).tolist(),
        n_fits=len(maps),
        n_left_out=fits.n_left_out,
        n_separating=int((p_values <= LEVEL).sum()),
        p_value=p_value,
        separation=float(fits.pick("window_separation", place).sum(axis=(1, 2)).mean()),
        effect=_with_interval(float(np.mean(effects)), fits.class_counts),
        places=places,
        shape=shape,
        windows=_list_windows(fits, place),
        regions=_list_regions(fits, place, maps),
        region_shares=_shares(maps.mean(axis=0)).tolist(),
        verdict=verdict,
        sentence=sentence,
    )


def _with_interval(value: float, class_counts: NDArray[np.int64]) -> Effect:
    """Cohen's d with its 95 % interval by the normal approximation; per contrast where there are several, then mean."""
    codes = np.repeat(np.arange(len(class_counts)), class_counts)
    inside = contrast_members(codes, len(class_counts)).sum(axis=0)
    outside = len(codes) - inside
    if not (inside * outside).all():
        return Effect(value, float("nan"), float("nan"))
    errors = np.sqrt(len(codes) / (inside * outside) + value**2 / (2 * len(codes)))
    reach = float(norm.ppf(0.975) * errors.mean())
    return Effect(value, value - reach, value + reach)


def _list_windows(fits: _Fits, place: int) -> list[Window]:
    """The windows that move the class scores most, whichever way."""
    influence = fits.pick("window_influence", place).mean(axis=0)
    shares = _shares(fits.pick("window_separation", place).mean(axis=0))
    effects = fits.pick("window_effect", place).mean(axis=0)
    scores = np.nanmean(fits.pick("class_scores", place), axis=0)
    stride, n = fits.templates[0].stride, influence.shape[0]
    windows = []
    for s, t in (divmod(int(index), n) for index in np.argsort(-influence, axis=None)[:_WINDOWS]):
        windows.append(
            Window(
                row=s * stride,
                column=t * stride,
                share=float(shares[s, t]),
                effect=_with_interval(float(effects[s, t]), fits.class_counts),
                scores=scores[:, s, t].tolist(),
                favours=int(np.argmax(scores[:, s, t])),
                orientations=[_orientation(fits, place, code, s, t) for code in range(fits.n_classes)],
            )
        )
    return windows


def _orientation(fits: _Fits, place: int, code: int, s: int, t: int) -> Orientation:
    """The permutation found most often over fits, in the node order of the aligned template."""
    table = permutation_table(fits.templates[0].matrices.shape[-1]).numpy()
    shares: dict[tuple[int, ...], float] = defaultdict(float)
    for fit, alignment, _ in fits.parts():
        template = alignment.order[place]
        found = fit.orientation[code, template, s, t]
        if found >= 0:
            to_reference = np.argsort(alignment.permutations[place])
            shares[tuple(to_reference[table[found]].tolist())] += float(fit.orientation_share[code, template, s, t])
    if not shares:
        return Orientation([], 0.0)
    permutation = max(shares, key=lambda found: shares[found])
    return Orientation(list(permutation), shares[permutation] / len(fits.templates))


def _list_regions(fits: _Fits, place: int, maps: NDArray[np.float64]) -> list[Region]:
    """The nodes over which the template separates the classes most."""
    fit = fits.templates[0]
    kernel_size = fit.matrices.shape[-1]
    first = np.argsort(-maps, axis=1)[:, :kernel_size]
    weights = np.maximum(fits.pick("window_separation", place), 0)[:, None]
    weighted = np.nan_to_num(fits.pick("class_scores", place)) * weights
    favours = over_regions(weighted.mean(axis=0), fits.n_nodes, kernel_size, fit.stride).argmax(axis=0)
    effects = np.mean(
        [
            effect_size(part.region_evidence[:, :, alignment.order[place]], codes, fits.n_classes)
            for part, alignment, codes in fits.parts()
        ],
        axis=0,
    )
    shares = _shares(maps.mean(axis=0))
    return [
        Region(
            node=int(node),
            share=float(shares[node]),
            effect=_with_interval(float(effects[node]), fits.class_counts),
            n_fits=int((first == node).sum()),
            favours=int(favours[node]),
        )
        for node in np.argsort(-shares)[:_REGIONS]
    ]


def _shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Signed parts whose absolute values sum to 1."""
    total = np.abs(values).sum()
    return values / total if total > 0 else values


def _judge(
    p_values: NDArray[np.float64], p_value: float, places: Agreement | None, shape: Agreement | None
) -> tuple[str, str]:
    """The verdict and why."""
    n_fits, n_separating = len(p_values), int((p_values <= LEVEL).sum())
    separates = f"separates the classes of unseen graphs in {n_separating} of {n_fits} fits"
    if places is None or shape is None:
        return "not assessed", f"Not assessed: {n_fits} of the {MIN_FITS} fits that stability needs; it {separates}."
    where = f"(correlation {places.value:.2f}; by chance up to {places.null:.2f})"
    same_shape = f"(likeness {shape.value:.2f}; by chance up to {shape.null:.2f})"
    form = f"Its shape comes back {same_shape}."
    if shape.p_value > LEVEL:
        form = f"Its shape does not come back {same_shape}: read the regions, not the drawing of the template."
    if p_value > LEVEL:
        return "not stable", f"Not stable: it {separates}, which chance does too (p = {p_value:.3f})."
    if places.p_value > LEVEL:
        return "not stable", f"Not stable: it {separates}, but at other regions each time {where}."
    return "stable", f"Stable: it {separates} (p = {p_value:.3f}) and at the same regions {where}. {form}"
