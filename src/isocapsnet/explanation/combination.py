"""Evidence cards from the explanations of several fits."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from isocapsnet._validation import InputError
from isocapsnet.evaluation.statistics import LEVEL, holm
from isocapsnet.explanation.alignment import agreement_of_shapes, view_as
from isocapsnet.explanation.cards import Agreement, Effect, EvidenceCard, Orientation, Region, Window
from isocapsnet.explanation.contrasts import contrast_members, effect_size, separation
from isocapsnet.explanation.fits import FitExplanation, Templates, over_regions
from isocapsnet.explanation.stability import (
    MIN_FITS,
    agreement_of_regions,
    combine_p_values,
    describe_shape,
    judge,
    permutation_p_values,
)
from isocapsnet.functional import permutation_at

_WINDOWS = 10
_REGIONS = 10

Measure = Callable[[NDArray[Any], NDArray[np.int64], int], NDArray[np.float64]]


def combine(
    explanations: Sequence[FitExplanation],
    subjects: Sequence[ArrayLike] | None = None,
    reference: NDArray[np.float32] | None = None,
    random_state: int = 0,
) -> list[EvidenceCard]:
    """One card per template, from fits of one method to one dataset, each explained on graphs that it did not see.

    A template is stable if it separates the classes of unseen graphs in nine of ten fits, or in all of fewer than ten
    (p <= 0.01 by shuffling labels within each fit, combined under any dependence and adjusted for the number of
    templates), and if the maps of the fits over regions agree better than 95 % of randomly shifted maps.

    Parameters
    ----------
    explanations : sequence of FitExplanation
        Fits without templates, with fewer than two held-out graphs of a class, or with templates of another size or
        number than most are left out.
    subjects : sequence of array-like, optional
        For each fit, the subjects of the given graphs (``test`` of a benchmark record). Without it, intervals are
        based on the number of graphs of the largest fit.
    reference : array (n_templates, k, k), optional
        Templates to align to; those of the first fit by default.
    random_state : int

    Returns
    -------
    list of EvidenceCard
        In the order of the reference's templates; empty if no fit can be used, or if templates do not contribute to
        the class scores of any fit.
    """
    fits = _choose(explanations, subjects, reference)
    if fits is None or not any(templates.template_evidence.any() for templates in fits.templates):
        return []
    p_values = np.stack(
        [
            permutation_p_values(templates.template_evidence, codes, fits.n_classes, random_state + index)
            for index, (templates, codes) in enumerate(zip(fits.templates, fits.codes, strict=True))
        ]
    )
    adjusted = holm(combine_p_values(p_values).tolist())
    shapes: Sequence[Agreement | None] = [None] * len(adjusted)
    if len(p_values) >= MIN_FITS:
        shapes = agreement_of_shapes(np.stack([t.matrices for t in fits.templates]), random_state, reference)
    return [
        _make_card(fits, template, p_values[:, template], adjusted[template], shapes[template], random_state)
        for template in range(len(adjusted))
    ]


@dataclass(frozen=True)
class _Fits:
    """Fits with comparable templates, aligned to one reference."""

    templates: list[Templates]
    codes: list[NDArray[np.int64]]
    n_classes: int
    n_nodes: int
    n_left_out: int
    class_counts: NDArray[np.int64]

    def mean(self, name: str, template: int) -> NDArray[np.float64]:
        """A map ``(n, n)`` or ``(n_classes, n, n)`` of a template, mean over fits."""
        maps = [getattr(templates, name)[..., template, :, :] for templates in self.templates]
        return np.mean(maps, axis=0, dtype=np.float64)

    def over_fits(self, measure: Measure, name: str, template: int) -> NDArray[np.float64]:
        """A measure of a template's evidence in each fit ``(n_fits, ...)``."""
        evidence = [getattr(templates, name)[:, :, template] for templates in self.templates]
        pairs = zip(evidence, self.codes, strict=True)
        return np.stack([measure(values, codes, self.n_classes) for values, codes in pairs])


def _choose(
    explanations: Sequence[FitExplanation], subjects: Sequence[ArrayLike] | None, reference: NDArray[np.float32] | None
) -> _Fits | None:
    """The largest set of comparable fits; None if no fit can be used."""
    if subjects is not None and len(subjects) != len(explanations):
        raise InputError(f"There are {len(explanations)} explanations, but subjects for {len(subjects)}.")
    kinds = {index: kind for index, fit in enumerate(explanations) if (kind := _kind(fit)) is not None}
    if not kinds:
        return None
    if reference is not None:
        kinds = {index: kind for index, kind in kinds.items() if kind[0] == reference.shape}
        if not kinds:
            raise InputError("No fit has templates of the size and number of reference=.")
    most, _ = Counter(kinds.values()).most_common(1)[0]
    chosen = [explanations[index] for index, kind in kinds.items() if kind == most]
    templates = [fit.templates for fit in chosen if fit.templates is not None]
    target = templates[0].matrices if reference is None else reference
    return _Fits(
        templates=[view_as(target, fit) for fit in templates],
        codes=[fit.codes for fit in chosen],
        n_classes=len(chosen[0].classes),
        n_nodes=chosen[0].n_nodes,
        n_left_out=len(explanations) - len(chosen),
        class_counts=count_classes(
            chosen, None if subjects is None else [subjects[index] for index, kind in kinds.items() if kind == most]
        ),
    )


def _kind(explanation: FitExplanation) -> tuple[Any, ...] | None:
    """What comparable fits have in common; None without templates or with too few graphs of a class."""
    templates = explanation.templates
    if templates is None or not has_two_of_each(explanation):
        return None
    return templates.matrices.shape, templates.stride, explanation.n_nodes, tuple(explanation.classes.tolist())


def has_two_of_each(explanation: FitExplanation) -> bool:
    """Whether a fit was explained on at least two graphs of every class, so that classes can be compared."""
    return int(np.bincount(explanation.codes, minlength=len(explanation.classes)).min()) >= 2


def count_classes(explanations: Sequence[FitExplanation], subjects: Sequence[ArrayLike] | None) -> NDArray[np.int64]:
    """Number of different subjects of each class over all fits; without subjects, the graphs of the largest fit."""
    n_classes = len(explanations[0].classes)
    if subjects is None:
        largest = max(explanations, key=lambda explanation: len(explanation.codes))
        return np.bincount(largest.codes, minlength=n_classes)
    class_of: dict[Hashable, int] = {}
    for explanation, names in zip(explanations, subjects, strict=True):
        class_of.update(zip(np.asarray(names)[explanation.positions].tolist(), explanation.codes.tolist(), strict=True))
    return np.bincount(list(class_of.values()), minlength=n_classes)


def _make_card(
    fits: _Fits, template: int, p_values: NDArray[np.float64], p_value: float, shape: Agreement | None, seed: int
) -> EvidenceCard:
    maps = fits.over_fits(separation, "region_evidence", template)
    matrices = np.stack([templates.matrices[template] for templates in fits.templates]).astype(np.float64)
    places = agreement_of_regions(maps, seed) if len(maps) >= MIN_FITS else None
    n_without = sum(not templates.template_evidence.any() for templates in fits.templates)
    verdict, sentence = _judge(p_values, p_value, places, shape, n_without)
    return EvidenceCard(
        template=template,
        matrix=matrices.mean(axis=0).tolist(),
        n_fits=len(maps),
        n_left_out=fits.n_left_out,
        n_separating=int((p_values <= LEVEL).sum()),
        p_value=p_value,
        separation=float(fits.mean("window_separation", template).sum()),
        effect=with_interval(fits.over_fits(effect_size, "template_evidence", template).mean(), fits.class_counts),
        places=places,
        shape=shape,
        windows=_list_windows(fits, template),
        regions=_list_regions(fits, template, maps),
        verdict=verdict,
        sentence=sentence,
    )


def with_interval(value: float, class_counts: NDArray[np.int64]) -> Effect:
    """Cohen's d with its 95 % interval by the normal approximation; the width is the mean over contrasts."""
    codes = np.repeat(np.arange(len(class_counts)), class_counts)
    inside = contrast_members(codes, len(class_counts)).sum(axis=0)
    outside = len(codes) - inside
    errors = np.sqrt(len(codes) / (inside * outside) + value**2 / (2 * len(codes)))
    half = float(norm.ppf(0.975) * errors.mean())
    return Effect(float(value), float(value - half), float(value + half))


def _list_windows(fits: _Fits, template: int) -> list[Window]:
    """The windows with the largest influence on the class scores."""
    influence, effects = fits.mean("window_influence", template), fits.mean("window_effect", template)
    shares, scores = _shares(fits.mean("window_separation", template)), fits.mean("class_scores", template)
    stride = fits.templates[0].stride
    windows = []
    for index in np.argsort(-influence, axis=None)[:_WINDOWS]:
        s, t = divmod(int(index), len(influence))
        windows.append(
            Window(
                row=s * stride,
                column=t * stride,
                share=float(shares[s, t]),
                effect=with_interval(effects[s, t], fits.class_counts),
                scores=scores[:, s, t].tolist(),
                favours=int(np.argmax(scores[:, s, t])),
                orientations=[_orientation(fits, (code, template, s, t)) for code in range(fits.n_classes)],
            )
        )
    return windows


def _orientation(fits: _Fits, where: tuple[int, int, int, int]) -> Orientation:
    """The most frequent permutation over fits at ``(class, template, s, t)``."""
    shares: dict[int, float] = defaultdict(float)
    for templates in fits.templates:
        shares[int(templates.orientation[where])] += float(templates.orientation_share[where])
    winner = max(shares, key=lambda number: shares[number])
    order = permutation_at(torch.tensor(max(winner, 0)), fits.templates[0].matrices.shape[-1])
    return Orientation(order.tolist(), shares[winner] / len(fits.templates))


def _list_regions(fits: _Fits, template: int, maps: NDArray[np.float64]) -> list[Region]:
    """The nodes with the largest share of the separation."""
    kernel_size, stride = fits.templates[0].matrices.shape[-1], fits.templates[0].stride
    first = np.argsort(-maps, axis=1)[:, :kernel_size]
    weighted = fits.mean("class_scores", template) * np.maximum(fits.mean("window_separation", template), 0)
    favours = over_regions(weighted, fits.n_nodes, kernel_size, stride).argmax(axis=0)
    effects = fits.over_fits(effect_size, "region_evidence", template).mean(axis=0)
    shares = _shares(maps.mean(axis=0))
    return [
        Region(
            node=int(node),
            share=float(shares[node]),
            effect=with_interval(effects[node], fits.class_counts),
            n_fits=int((first == node).sum()),
            favours=int(favours[node]),
        )
        for node in np.argsort(-shares)[:_REGIONS]
    ]


def _shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values divided by the sum of their absolute values."""
    total = np.abs(values).sum()
    return values / total if total > 0 else values


def _judge(
    p_values: NDArray[np.float64],
    p_value: float,
    places: Agreement | None,
    shape: Agreement | None,
    n_without: int = 0,
) -> tuple[str, str]:
    """The verdict about a template, which is one about its regions."""
    if places is None or shape is None:
        differs = agrees = ""
    else:
        where = f"regions (correlation between fits {places.value:.2f}; up to {places.null:.2f} by chance)"
        form = describe_shape(shape)
        if shape.p_value > LEVEL:
            form += ", so interpret the regions, not the drawing of the template"
        differs, agrees = f"in different {where}", f"in the same {where}; {form}"
    decisive = None if shape is None else places
    network = "the network of the paper"
    return judge("template", network, p_values, p_value, n_without, decisive, differs=differs, agrees=agrees)
