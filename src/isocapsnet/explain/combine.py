"""From the explanations of several fits to evidence cards."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from isocapsnet._validation import InputError
from isocapsnet.explain.alignment import agreement_of_shapes, align_templates, view_as
from isocapsnet.explain.cards import Agreement, Effect, EvidenceCard, Orientation, Region, Window
from isocapsnet.explain.contrasts import contrast_members, effect_size, separation
from isocapsnet.explain.explanation import Explanation, Templates, over_regions
from isocapsnet.explain.stability import (
    LEVEL,
    STABLE_LEVEL,
    agreement_of_places,
    combine_p_values,
    holm,
    permutation_p_values,
)
from isocapsnet.functional import permutation_at

#: Fits without which nothing is said about stability.
MIN_FITS = 3
_WINDOWS = 10
_REGIONS = 10

Measure = Callable[[NDArray[Any], NDArray[np.int64], int], NDArray[np.float64]]


def combine(
    explanations: Sequence[Explanation],
    subjects: Sequence[ArrayLike] | None = None,
    reference: NDArray[np.float32] | None = None,
    random_state: int = 0,
) -> list[EvidenceCard]:
    """One card per template, from fits of one method on one dataset, each explained on graphs it did not see.

    A template is called stable when it separates the classes of unseen graphs in nine of ten fits, or in all where
    there are fewer than ten (p <= 0.01, labels shuffled within each fit, combined under any dependence and adjusted
    over the templates), and the fits agree on the regions better than 95 % of the same maps moved to random places.

    Parameters
    ----------
    explanations : sequence of Explanation
        Left out are those without templates, those whose templates have another size or number than most, and those
        with fewer than two held-out graphs of a class.
    subjects : sequence of array-like, optional
        Per fit, who each given graph belongs to (a benchmark record's ``test``); without it the intervals count the
        graphs of the largest fit alone.
    reference : array (n_templates, k, k), optional
        Templates that give the places; the first fit's by default.
    random_state : int

    Returns
    -------
    list of EvidenceCard
        In the order of the reference's templates; empty without any fit to speak of.
    """
    fits = _choose(explanations, subjects, reference)
    if fits is None:
        return []
    p_values = np.stack(
        [
            permutation_p_values(templates.template_evidence, codes, fits.n_classes, random_state + place)
            for place, (templates, codes) in enumerate(zip(fits.templates, fits.codes, strict=True))
        ]
    )
    adjusted = holm(combine_p_values(p_values))
    shapes: Sequence[Agreement | None] = [None] * len(adjusted)
    if len(p_values) >= MIN_FITS:
        shapes = agreement_of_shapes(np.stack([t.matrices for t in fits.templates]), random_state, reference)
    return [
        _make_card(fits, place, p_values[:, place], float(adjusted[place]), shapes[place], random_state)
        for place in range(len(adjusted))
    ]


@dataclass(frozen=True)
class _Fits:
    """Fits with comparable templates, all in the order and with the node numbers of one reference."""

    templates: list[Templates]
    codes: list[NDArray[np.int64]]
    n_classes: int
    n_nodes: int
    n_left_out: int
    class_counts: NDArray[np.int64]

    def mean(self, name: str, place: int) -> NDArray[np.float64]:
        """A map ``(n, n)`` or ``(n_classes, n, n)`` of the template at a place, mean over fits."""
        maps = [getattr(templates, name)[..., place, :, :] for templates in self.templates]
        return np.mean(maps, axis=0, dtype=np.float64)

    def over_fits(self, measure: Measure, name: str, place: int) -> NDArray[np.float64]:
        """A measure of a template's evidence ``(n_fits, ...)``."""
        return np.stack(
            [
                measure(getattr(templates, name)[:, :, place], codes, self.n_classes)
                for templates, codes in zip(self.templates, self.codes, strict=True)
            ]
        )


def _choose(
    explanations: Sequence[Explanation], subjects: Sequence[ArrayLike] | None, reference: NDArray[np.float32] | None
) -> _Fits | None:
    """The largest set of comparable fits; None where there is none."""
    if subjects is not None and len(subjects) != len(explanations):
        raise InputError(f"There are {len(explanations)} explanations but subjects for {len(subjects)}.")
    kinds = {place: kind for place, fit in enumerate(explanations) if (kind := _kind(fit)) is not None}
    if not kinds:
        return None
    if reference is not None:
        kinds = {place: kind for place, kind in kinds.items() if kind[0] == reference.shape}
        if not kinds:
            raise InputError("No fit has templates of the reference's size and number.")
    most, _ = Counter(kinds.values()).most_common(1)[0]
    chosen = [place for place, kind in kinds.items() if kind == most]
    templates = [fit for place in chosen if (fit := explanations[place].templates) is not None]
    target = templates[0].matrices if reference is None else reference
    first = explanations[chosen[0]]
    return _Fits(
        templates=[view_as(fit, align_templates(target, fit.matrices)) for fit in templates],
        codes=[explanations[place].codes for place in chosen],
        n_classes=len(first.classes),
        n_nodes=first.n_nodes,
        n_left_out=len(explanations) - len(chosen),
        class_counts=_count_classes(
            [explanations[place] for place in chosen],
            None if subjects is None else [subjects[place] for place in chosen],
        ),
    )


def _kind(explanation: Explanation) -> tuple[Any, ...] | None:
    """What must be equal for fits to be compared; None without templates or with too few graphs of a class."""
    templates = explanation.templates
    counts = np.bincount(explanation.codes, minlength=len(explanation.classes))
    if templates is None or counts.min() < 2:
        return None
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
    maps = fits.over_fits(separation, "region_evidence", place)
    matrices = np.stack([templates.matrices[place] for templates in fits.templates]).astype(np.float64)
    places = agreement_of_places(maps, seed) if len(maps) >= MIN_FITS else None
    verdict, sentence = _judge(p_values, p_value, places, shape)
    return EvidenceCard(
        template=place,
        matrix=matrices.mean(axis=0).tolist(),
        matrix_deviation=matrices.std(axis=0).tolist(),
        n_fits=len(maps),
        n_left_out=fits.n_left_out,
        n_separating=int((p_values <= LEVEL).sum()),
        p_value=p_value,
        separation=float(fits.mean("window_separation", place).sum()),
        effect=_with_interval(fits.over_fits(effect_size, "template_evidence", place).mean(), fits.class_counts),
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
    errors = np.sqrt(len(codes) / (inside * outside) + value**2 / (2 * len(codes)))
    reach = float(norm.ppf(0.975) * errors.mean())
    return Effect(float(value), float(value - reach), float(value + reach))


def _list_windows(fits: _Fits, place: int) -> list[Window]:
    """The windows that move the class scores most, whichever way."""
    influence, effects = fits.mean("window_influence", place), fits.mean("window_effect", place)
    shares, scores = _shares(fits.mean("window_separation", place)), fits.mean("class_scores", place)
    stride = fits.templates[0].stride
    windows = []
    for index in np.argsort(-influence, axis=None)[:_WINDOWS]:
        s, t = divmod(int(index), len(influence))
        windows.append(
            Window(
                row=s * stride,
                column=t * stride,
                share=float(shares[s, t]),
                effect=_with_interval(effects[s, t], fits.class_counts),
                scores=scores[:, s, t].tolist(),
                favours=int(np.argmax(scores[:, s, t])),
                orientations=[_orientation(fits, (code, place, s, t)) for code in range(fits.n_classes)],
            )
        )
    return windows


def _orientation(fits: _Fits, where: tuple[int, int, int, int]) -> Orientation:
    """The permutation found most often over fits at ``(class, template, s, t)``."""
    shares: dict[int, float] = defaultdict(float)
    for templates in fits.templates:
        shares[int(templates.orientation[where])] += float(templates.orientation_share[where])
    found = max(shares, key=lambda row: shares[row])
    order = permutation_at(torch.tensor(max(found, 0)), fits.templates[0].matrices.shape[-1])
    return Orientation(order.tolist(), shares[found] / len(fits.templates))


def _list_regions(fits: _Fits, place: int, maps: NDArray[np.float64]) -> list[Region]:
    """The nodes over which the template separates the classes most."""
    kernel_size, stride = fits.templates[0].matrices.shape[-1], fits.templates[0].stride
    first = np.argsort(-maps, axis=1)[:, :kernel_size]
    weighted = fits.mean("class_scores", place) * np.maximum(fits.mean("window_separation", place), 0)
    favours = over_regions(weighted, fits.n_nodes, kernel_size, stride).argmax(axis=0)
    effects = fits.over_fits(effect_size, "region_evidence", place).mean(axis=0)
    shares = _shares(maps.mean(axis=0))
    return [
        Region(
            node=int(node),
            share=float(shares[node]),
            effect=_with_interval(effects[node], fits.class_counts),
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
        needs = f"stability needs {MIN_FITS} fits, and there {'is one' if n_fits == 1 else f'are {n_fits}'}"
        found = f"it separates the classes of the graphs it was explained on in {n_separating} of {n_fits}"
        return "not assessed", f"Not assessed: {needs}; {found}."
    where = f"(correlation {places.value:.2f}; by chance up to {places.null:.2f})"
    same_shape = f"(likeness {shape.value:.2f}; by chance up to {shape.null:.2f})"
    form = f"Its shape comes back {same_shape}."
    if shape.p_value > LEVEL:
        form = f"Its shape does not come back {same_shape}: read the regions, not the drawing of the template."
    if p_value > STABLE_LEVEL:
        doubt = f"which leaves chance as a reason (p = {p_value:.3f}; {STABLE_LEVEL} is asked for)"
        return "not stable", f"Not stable: it {separates}, {doubt}."
    if places.p_value > LEVEL:
        return "not stable", f"Not stable: it {separates}, but at other regions each time {where}."
    return "stable", f"Stable: it {separates} (p = {p_value:.4f}) and at the same regions {where}. {form}"
