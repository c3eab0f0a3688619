"""From records to a table with verdicts in words, in which no winner is marked inside the noise."""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from isocapsnet.evaluation import statistics
from isocapsnet.evaluation.evidence import Evidence, Place, evidence_of, tell_apart
from isocapsnet.evaluation.naming import canonical_json
from isocapsnet.evaluation.sites import Sites
from isocapsnet.evaluation.statistics import CHANCE, METRICS, Interval

#: The method that "better than linear" is about.
REFERENCE = "linear"
#: Level of every test.
LEVEL = 0.05
_NOT_A_NUMBER = Interval(*[float("nan")] * 3)


@dataclass(frozen=True)
class Audit:
    """ROC AUC with shuffled nodes minus ROC AUC with nodes as given, over the same folds."""

    difference: Interval
    p_value: float
    verdict: str


@dataclass(frozen=True)
class MethodResult:
    """One row of the table.

    Attributes
    ----------
    jobs : int
        All jobs of the method, those of permutations and audits too.
    failures : mapping
        Reason to number of jobs.
    metrics : mapping
        Metric to its mean and interval over folds.
    scores : mapping
        (repeat, fold) to metric to value.
    keys : mapping
        (repeat, fold) to the key of the record.
    n_test : mapping
        (repeat, fold) to the number of test graphs.
    weights : mapping
        (repeat, fold) to its part in means: 1, or the number of test subjects where folds are sites.
    seconds : float
        Mean of tuning, fitting and predicting per fold.
    p_chance : float
        Of ROC AUC > 0.5, Holm-adjusted over the methods of the table.
    is_best : bool
        Whether it is above chance and beats every other method, Holm-adjusted over all pairs.
    """

    method: str
    jobs: int
    failures: Mapping[str, int]
    metrics: Mapping[str, Interval]
    scores: Mapping[Place, Mapping[str, float]]
    keys: Mapping[Place, str]
    n_test: Mapping[Place, int]
    weights: Mapping[Place, int]
    seconds: float
    use_unlabeled: bool
    p_chance: float = float("nan")
    verdict: str = ""
    is_best: bool = False
    audit: Audit | None = None

    @property
    def failed(self) -> int:
        return sum(self.failures.values())


@dataclass(frozen=True)
class Comparison:
    """``first`` minus ``second`` in ROC AUC over the same folds; ``p_adjusted`` by Holm over all pairs."""

    first: str
    second: str
    difference: Interval
    p_value: float
    p_adjusted: float


@dataclass(frozen=True)
class Table:
    """All methods on one study under one protocol.

    ``versions`` are those that the records were computed with, several of a package with commas between them.
    ``sites`` says which sites were tested, where folds are sites.
    """

    rows: Sequence[MethodResult]
    comparisons: Sequence[Comparison]
    test_over_train: float
    versions: Mapping[str, str]
    sites: Sites | None = None

    def _repr_html_(self) -> str:
        """For notebooks: each method's ROC AUC with its interval, accuracy and verdict, the best first."""
        order = sorted(self.rows, key=lambda row: -np.nan_to_num(row.metrics["roc_auc"].mean, nan=-1.0))
        lines = [
            f"<tr><th>{html.escape(row.method)}</th><td>{_show(row.metrics['roc_auc'])}</td>"
            f"<td>{_show(row.metrics['accuracy'])}</td><td>{html.escape(row.verdict)}</td></tr>"
            for row in order
        ]
        head = "<tr><th>method</th><th>ROC AUC [95 %]</th><th>accuracy [95 %]</th><th>what it shows</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"


def _show(interval: Interval) -> str:
    """``0.712 [0.650, 0.774]``; a dash for what was not measured."""
    mean, low, high = ("–" if np.isnan(value) else f"{value:.3f}" for value in interval)
    return f"{mean} [{low}, {high}]"


def tabulate(records: Iterable[Mapping[str, Any]], errors: Iterable[Mapping[str, Any]] = ()) -> Table:
    """The table of records that share a study, a protocol and a preparation; ``errors`` are of failed jobs."""
    evidence: dict[str, Evidence] = {}
    ratios = []
    versions: dict[str, set[str]] = {}
    for record in records:
        for package, version in record.get("versions", {}).items():
            versions.setdefault(package, set()).add(version)
        evidence_of(record, evidence).add(record)
        ratios.append(len(record["test"]) / record["n_train"])
    for error in errors:
        found = evidence_of(error, evidence)
        found.jobs += 1
        found.failures[error["reason"]] += 1
    ratio = float(np.mean(ratios)) if ratios else float("nan")
    methods = list(evidence.values())
    tell_apart(methods)
    comparisons = _compare_all(methods, ratio)
    p_chance = _test_against_chance(methods, ratio)
    hopeless = _out_of_reach(methods, ratio)
    audits = _test_audits(methods, ratio)
    above_chance = {label for label, p_value in p_chance.items() if p_value <= LEVEL}
    able = [found for found in methods if not found.failures and found.label in above_chance]
    best = _find_best(able, comparisons)
    against_reference = _against_reference(methods, ratio)
    sites = Sites.of(fold.sites for found in methods for fold in found.data.values() if fold.sites is not None)
    rows = []
    for found in methods:
        row = _summarise(found, ratio)
        row = replace(
            row,
            p_chance=p_chance.get(found.label, float("nan")),
            is_best=found.label == best,
            audit=audits.get(found.label),
        )
        # Of two methods that may both be guessing, neither is called worse.
        relation = against_reference.get(found.label) if above_chance & {found.label, REFERENCE} else None
        verdict = _verdict(row, relation, found.label in hopeless, sites)
        rows.append(replace(row, verdict=verdict))
    used = {package: ", ".join(sorted(found)) for package, found in versions.items()}
    return Table(rows, comparisons, ratio, used, sites)


def group_records(items: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Records or errors that can stand in one table, by :func:`group_of`."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        groups.setdefault(group_of(item), []).append(item)
    return groups


def group_of(item: Mapping[str, Any]) -> str:
    """The table that a record or error belongs to: same data, same splits, same preparation, as JSON."""
    job = item["job"]
    protocol = {name: job["protocol"][name] for name in ("name", "n_folds")}
    return canonical_json([job["dataset"], protocol, job["preparation"]])


def _summarise(found: Evidence, ratio: float) -> MethodResult:
    """The row without what depends on other rows."""
    folds = dict(sorted(found.data.items()))
    weights = found.weights(folds)
    metrics = {
        name: statistics.corrected_interval(
            [fold.scores[name] for fold in folds.values()], ratio, weights=weights, metric=name
        )
        for name in METRICS
    }
    areas = [fold.scores["roc_auc"] for fold in folds.values()]
    if set(areas) != {CHANCE}:  # a constant answer has that area by construction, not by luck
        least = found.area_variance(metrics["roc_auc"].mean)
        metrics["roc_auc"] = statistics.corrected_interval(areas, ratio, weights=weights, least_variance=least)
    n_test = {place: sum(fold.counts) for place, fold in folds.items()}
    if len(folds) == 1:
        [total] = n_test.values()
        metrics["accuracy"] = statistics.wilson_interval(round(metrics["accuracy"].mean * total), total)
    return MethodResult(
        method=found.label,
        jobs=found.jobs,
        failures=dict(found.failures),
        metrics=metrics,
        scores={place: fold.scores for place, fold in folds.items()},
        keys={place: fold.key for place, fold in folds.items()},
        n_test=n_test,
        weights=dict(zip(folds, weights, strict=True)),
        seconds=float(np.mean([fold.seconds for fold in folds.values()])) if folds else float("nan"),
        use_unlabeled=found.use_unlabeled,
    )


def _test_against_chance(methods: Sequence[Evidence], ratio: float) -> dict[str, float]:
    """Label to Holm-adjusted p-value: by permutation where there are any, else by corrected t-test."""
    p_values: dict[str, float] = {}
    for found in methods:
        areas, weights = found.areas(), found.weights()
        complete = [[draw[place] for place in areas] for draw in found.null.values() if draw.keys() == areas.keys()]
        observed = statistics.weighted_mean(list(areas.values()), weights)
        if complete and not np.isnan(observed):
            null = [statistics.weighted_mean(draw, weights) for draw in complete]
            p_values[found.label] = statistics.permutation_p_value(observed, null)
        elif areas:
            p_values[found.label] = statistics.corrected_t_test(
                np.array(list(areas.values())) - CHANCE,
                ratio,
                "greater",
                weights=weights,
                least_variance=found.area_variance(CHANCE),
            )
    # A predictor that never leaves chance poses no question, so it does not widen the family.
    asked = [label for label, p_value in p_values.items() if p_value < 1]
    return p_values | dict(zip(asked, statistics.holm([p_values[label] for label in asked]), strict=True))


def _out_of_reach(methods: Sequence[Evidence], ratio: float) -> set[str]:
    """Labels of methods that would not be above chance by t-test even if each had a ROC AUC of 1 in every fold."""
    p_values = {
        found.label: statistics.corrected_t_test(
            np.full(len(found.data), 1 - CHANCE),
            ratio,
            "greater",
            weights=found.weights(),
            least_variance=found.area_variance(CHANCE),
        )
        for found in methods
        if len(found.data) > 1 and not found.null and set(found.areas().values()) != {CHANCE}
    }
    adjusted = statistics.holm(list(p_values.values()))
    return {label for label, p_value in zip(p_values, adjusted, strict=True) if p_value > LEVEL}


def _compare(
    first: Mapping[Place, float], second: Mapping[Place, float], found: Evidence, ratio: float
) -> tuple[Interval, float]:
    """Difference over the folds both have, weighted as in ``found``, with its interval and two-sided p-value."""
    common = sorted(first.keys() & second.keys())
    differences, weights = [first[place] - second[place] for place in common], found.weights(common)
    if not common:
        return _NOT_A_NUMBER, 1.0
    interval = statistics.corrected_interval(differences, ratio, weights=weights, metric="difference")
    return interval, statistics.corrected_t_test(differences, ratio, weights=weights)


def _compare_all(methods: Sequence[Evidence], ratio: float) -> list[Comparison]:
    pairs = list(combinations([found for found in methods if found.data], 2))
    tests = [_compare(first.areas(), second.areas(), first, ratio) for first, second in pairs]
    adjusted = statistics.holm([p_value for _, p_value in tests])
    return [
        Comparison(first.label, second.label, difference, p_value, p_adjusted)
        for (first, second), (difference, p_value), p_adjusted in zip(pairs, tests, adjusted, strict=True)
    ]


def _against_reference(methods: Sequence[Evidence], ratio: float) -> dict[str, str]:
    """Label to what is known of its difference to the reference, Holm-adjusted over these comparisons."""
    reference = next((found for found in methods if found.label == REFERENCE and found.data), None)
    others = [found for found in methods if found is not reference and found.data]
    if reference is None:
        return {}
    tests = [_compare(found.areas(), reference.areas(), found, ratio) for found in others]
    adjusted = statistics.holm([p_value for _, p_value in tests])
    words = {}
    for found, (difference, _), p_value in zip(others, tests, adjusted, strict=True):
        relation = "better than" if difference.mean > 0 else "worse than"
        words[found.label] = f"{relation if p_value <= LEVEL else 'not distinguishable from'} {REFERENCE}"
    return words


def _test_audits(methods: Sequence[Evidence], ratio: float) -> dict[str, Audit]:
    audited = [found for found in methods if found.audits]
    tests = []
    for found in audited:
        areas = found.areas()
        places = {place for _, place in found.audits if place in areas}
        shuffled = {p: float(np.mean([a for (_, at), a in found.audits.items() if at == p])) for p in places}
        tests.append(_compare(shuffled, areas, found, ratio))
    adjusted = statistics.holm([p_value for _, p_value in tests])
    return {
        found.label: Audit(
            difference,
            p_value,
            "depends on the node order" if p_value <= LEVEL else "no dependence on the node order found",
        )
        for found, (difference, _), p_value in zip(audited, tests, adjusted, strict=True)
    }


def _find_best(methods: Sequence[Evidence], comparisons: Sequence[Comparison]) -> str | None:
    """The method that beats every other one; None inside the noise, and when there is nothing to beat."""
    for found in methods:
        wins = [
            c.p_adjusted <= LEVEL and (c.difference.mean > 0) == (c.first == found.label)
            for c in comparisons
            if found.label in (c.first, c.second)
        ]
        if wins and all(wins):
            return found.label
    return None


def _verdict(row: MethodResult, against_reference: str | None, is_out_of_reach: bool, sites: Sites | None) -> str:
    """What the numbers show about one method."""
    if row.failed:
        reason = max(row.failures, key=lambda text: row.failures[text])
        return f"{row.failed} of {row.jobs} jobs failed: {reason}"
    if not row.scores:
        return "no test fold is finished"
    if np.isnan(row.metrics["roc_auc"].mean):
        return "ROC AUC is not defined: every test fold holds one class"
    n_scored = sum(not np.isnan(scores["roc_auc"]) for scores in row.scores.values())
    where = f" ({sites.share})" if sites is not None and sites.too_small else ""
    where += f" (ROC AUC over {n_scored} of {len(row.scores)} test folds)" if n_scored < len(row.scores) else ""
    if len(row.scores) < 2 and row.p_chance == 1:
        return f"a single test fold shows no more than its own interval{where}"
    if row.p_chance <= LEVEL:
        return "above chance" + (f", {against_reference}" if against_reference else "") + where
    below = against_reference is not None and against_reference.startswith("worse")
    verdict = "not distinguishable from chance" + (f", {against_reference}" if below else "")
    if is_out_of_reach:
        verdict += f" ({len(row.scores)} folds are too few; a perfect score would not be either)"
    return verdict + where
