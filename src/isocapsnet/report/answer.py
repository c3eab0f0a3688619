"""The answer of a study: the verdict, the numbers of the first screen, and sentences with their uncertainty."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from isocapsnet._format import interval, number, p_value
from isocapsnet.evaluation.comparisons import CONSTANT, REFERENCE
from isocapsnet.evaluation.differences import MARGIN
from isocapsnet.evaluation.power import describe_needed
from isocapsnet.evaluation.procedures import TESTS
from isocapsnet.evaluation.results import MethodResult
from isocapsnet.evaluation.statistics import LEVEL, Interval
from isocapsnet.report.content import Content
from isocapsnet.report.prose import class_title, listing


class KeyFigure(NamedTuple):
    """A number of the first screen: its name, the number in large type, and what has to be known about it."""

    name: str
    value: str
    details: str


def answer(content: Content) -> list[str]:
    """The answer, one sentence per item, the most important first."""
    rows, contenders = _scored(content), _contenders(content)
    if not contenders:
        return ["There is no answer: no method has a finished job with a score."]
    best = _best(contenders)
    sentences = [
        _verdict(contenders, TESTS[content.table.test].min_folds),
        f"{best.method} has the highest mean ROC AUC: {interval(*best.metrics['roc_auc'])} ({_evidence(best)}).",
    ]
    if len(contenders) > 1 and not best.is_best:
        sentences.append("No method is better than every other method, so none is marked as the best.")
    sentences += _against_reference(content, rows)
    sentences += [content.sites] if content.sites else []
    sentences += _power(content.detectable)
    if content.n_failed:
        sentences.append(f"{content.n_failed} of {content.n_jobs} jobs failed, so the comparison is incomplete.")
    return sentences


def key_figures(content: Content) -> list[KeyFigure]:
    """The numbers that a reader should see first: the best ROC AUC, the difference to linear, controls, subjects."""
    contenders = _contenders(content)
    figures = []
    if contenders:
        best = _best(contenders)
        mean, low, high = best.metrics["roc_auc"]
        figures.append(KeyFigure(f"ROC AUC of {best.method}", number(mean, 2), f"{_bounds(low, high)}; chance is 0.5"))
        other = _rival_of_reference(content, best, contenders)
        if other is not None:
            difference, p_adjusted = _difference_to_reference(content, other)
            mean, low, high = difference
            sign = "+" if mean > 0 else ""
            shown = "" if np.isnan(p_adjusted) else f"; {p_value(p_adjusted)}"
            figures.append(
                KeyFigure(f"{other} minus {REFERENCE}", sign + number(mean, 2), f"{_bounds(low, high)}{shown}")
            )
    for method in content.methods:
        if method.row.covariates and method.row.scores:
            mean, low, high = method.row.metrics["roc_auc"]
            given = listing(list(method.row.covariates))
            figures.append(KeyFigure("ROC AUC without graphs", number(mean, 2), f"{_bounds(low, high)}; from {given}"))
    counts = {class_title(name): count for name, count in (content.passport.get("classes") or {}).items()}
    if counts:
        sites = content.passport.get("sites") or {}
        where = f", {len(sites)} sites" if len(sites) > 1 else ""
        classes = ", ".join(f"{count} {name}" for name, count in counts.items())
        figures.append(KeyFigure("labelled graphs", f"{sum(counts.values()):,}", f"{classes}{where}"))
    return figures


def caution(content: Content) -> str:
    """That the best method is not shown to be better than a model without graphs; empty if it is, or not tested."""
    contenders = _contenders(content)
    best = _best(contenders) if contenders else None
    if best is None or best.p_chance > LEVEL or not best.not_better_than:
        return ""
    given = {name for m in content.methods if m.label in best.not_better_than for name in m.row.covariates}
    return f"But {best.method} is not shown to be better than {listing(sorted(given))} alone, without any graph."


def compared(content: Content) -> str:
    """What was compared and how, in one line. Controls are named as such: they are not counted among the methods."""
    controls = [m.label for m in content.methods if m.row.method == CONSTANT or m.row.covariates]
    names = [m.label for m in content.methods if m.label not in controls] or controls
    protocol = content.protocol
    n_folds = max((len({fold for _, fold in method.row.keys}) for method in content.methods), default=0)
    repeats = max((method.n_repeats for method in content.methods), default=0)
    kind = {"leave-site-out": "sites left out in turn"}.get(str(protocol.get("name")), "cross-validation folds")
    how = f" over {n_folds} {kind}" + (f", {repeats} repeats" if repeats > 1 else "") if n_folds else ""
    methods = listing(names) if len(names) <= 6 else f"{len(names)} methods"
    beside = ""
    if controls and controls != names:
        beside = f", with {listing(controls)} as {'a control' if len(controls) == 1 else 'controls'},"
    return f"Compared: {methods}{beside}{how}." if names else ""


def _bounds(low: float, high: float) -> str:
    return "no interval" if np.isnan([low, high]).any() else f"95 % interval {number(low, 2)} to {number(high, 2)}"


def _scored(content: Content) -> list[MethodResult]:
    return [method.row for method in content.methods if not np.isnan(method.row.metrics["roc_auc"].mean)]


def _contenders(content: Content) -> list[MethodResult]:
    """Methods with a score that use graphs."""
    return [row for row in _scored(content) if row.method != CONSTANT and not row.covariates]


def _best(contenders: Sequence[MethodResult]) -> MethodResult:
    return max(contenders, key=lambda row: row.metrics["roc_auc"].mean)


def _rival_of_reference(content: Content, best: MethodResult, contenders: Sequence[MethodResult]) -> str | None:
    """The method whose difference to the linear model is shown: the best, or else Iso-CapsNet, or else the second."""
    others = sorted(contenders, key=lambda row: (row.name != "isocapsnet", -row.metrics["roc_auc"].mean))
    names = [best.method, *(row.method for row in others)]
    tested = {name for pair in content.table.comparisons for name in (pair.first, pair.second)}
    return next((name for name in names if name != REFERENCE and {name, REFERENCE} <= tested), None)


def _difference_to_reference(content: Content, method: str) -> tuple[Interval, float]:
    """The method minus the linear model in ROC AUC, and the adjusted p-value of a difference."""
    for pair in content.table.comparisons:
        if {pair.first, pair.second} == {method, REFERENCE}:
            mean, low, high = pair.difference
            turned = Interval(mean, low, high) if pair.first == method else Interval(-mean, -high, -low)
            return turned, pair.p_adjusted
    return Interval(*[float("nan")] * 3), float("nan")


def _verdict(rows: Sequence[MethodResult], min_folds: int) -> str:
    """The answer in one sentence, from the tests against chance and between methods."""
    if all(len(row.scores) < min_folds for row in rows):
        return "Undecided: a single test fold gives an interval, but no test."
    winners = [row.method for row in rows if row.p_chance <= LEVEL]
    if not winners:
        who = f"none of the {len(rows)} methods is"
        if len(rows) == 2:
            who = f"neither {rows[0].method} nor {rows[1].method} is"
        elif len(rows) == 1:
            who = f"{rows[0].method} is not"
        return f"Not shown: {who} distinguishable from chance on these data."
    best = [row.method for row in rows if row.is_best and len(rows) > 1]
    others = [row.method for row in rows if row.method not in best]
    rest = others[0] if len(others) == 1 else "every other method"
    ending = f", and {best[0]} is better than {rest}." if best else "."
    if len(winners) == 1:
        return f"Yes: {winners[0]} is above chance{ending}"
    which = f"{len(winners)} of {len(rows)} methods"
    if len(winners) == len(rows):
        which = "both methods" if len(rows) == 2 else f"all {len(rows)} methods"
    return f"Yes: {which}{f' ({listing(winners)})' if len(winners) <= 4 else ''} are above chance{ending}"


def _evidence(row: MethodResult) -> str:
    """The number of test folds behind an interval, and the test against chance."""
    n_folds, n_scored = len(row.scores), sum(not np.isnan(scores["roc_auc"]) for scores in row.scores.values())
    counted = f"{n_scored} of {n_folds}" if n_scored < n_folds else f"{n_folds}"
    words = [f"95 % interval over {counted} test folds"] if n_folds > 1 else ["one test fold"]
    if not np.isnan(row.p_chance):
        words.append(f"{p_value(row.p_chance)} against chance")
    return ", ".join(words)


def _against_reference(content: Content, rows: Sequence[MethodResult]) -> list[str]:
    """The difference of each isomorphic capsule network to the linear model."""
    if not any(row.method == REFERENCE for row in rows):
        return ["The comparison has no linear model, so it does not show whether a network is needed."]
    sentences = []
    name_of = {method.label: method.row.name for method in content.methods}
    for pair in content.table.comparisons:
        other = pair.second if pair.first == REFERENCE else pair.first
        if REFERENCE in (pair.first, pair.second) and name_of.get(other) == "isocapsnet":
            difference, _ = _difference_to_reference(content, other)
            sentence = f"{other} minus {REFERENCE} is {interval(*difference)} in ROC AUC on the same test folds."
            if pair.p_equivalent <= LEVEL:
                sentence += f" They are equivalent: they differ by less than {MARGIN} ({p_value(pair.p_equivalent)})."
            sentences.append(sentence)
    return sentences


def against_controls(content: Content) -> list[str]:
    """What covariates alone predict, and which methods above chance are not better; or why there is no such row."""
    controls = [method.row for method in content.methods if method.row.covariates and method.row.scores]
    sentences = []
    for control in controls:
        given = listing(list(control.covariates))
        sentences.append(
            f"{control.method}, a linear model on {given} without graphs, has a ROC AUC of "
            f"{interval(*control.metrics['roc_auc'])} ({_evidence(control)})."
        )
        weak = [r.method for r in _contenders(content) if r.p_chance <= LEVEL and control.method in r.not_better_than]
        if weak:
            sentences.append(
                f"Not shown to be better than {control.method}: {listing(weak)}. It is not shown that the graphs "
                f"contain information beyond {given}."
            )
    return sentences or ([content.confounds] if content.confounds else [])


def _power(detectable: Mapping[str, float | None] | None) -> list[str]:
    """The effects that the study can show; none if they were not computed."""
    detectable = detectable or {}
    n_folds, area, between = (detectable.get(name) for name in ("n_scores", "above_chance", "between_methods"))
    if area is None or between is None:
        return []
    if area >= 1:
        too_small = "With so few graphs and folds, the study could hardly show any effect (80 % power)."
        return [too_small, *filter(None, [describe_needed(detectable)])]
    sentence = (
        f"With {n_folds:.0f} test folds of this size, the study would miss a ROC AUC below about {area:.2f} in more "
        "than one of five cases."
    )
    if between < 0.5:
        sentence += (
            f" The same holds for a difference below about {between:.2f} between two methods near chance whose scores "
            "have a correlation of 0.5; for higher correlations, smaller differences can be shown."
        )
    return [sentence, *filter(None, [describe_needed(detectable)])]
