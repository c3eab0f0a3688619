"""From records to a table with a verdict in words for each method."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet.evaluation import comparisons
from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.comparisons import REFERENCE, Audit, Comparison
from isocapsnet.evaluation.evidence import (
    Evidence,
    FoldIndex,
    Identity,
    Summary,
    identify,
    make_labels_unique,
    summarise,
)
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.evaluation.naming import canonical_json
from isocapsnet.evaluation.procedures import DEFAULT_TEST, TESTS, Procedure
from isocapsnet.evaluation.sites import Sites
from isocapsnet.evaluation.statistics import LEVEL, Interval, wilson_interval


@dataclass(frozen=True)
class MethodResult:
    """One row of the table. Folds are named by (repeat, fold)."""

    method: str
    #: All jobs of the method, those of permutations and audits too.
    jobs: int
    #: Reason to number of jobs.
    failures: Mapping[str, int]
    #: Metric to its mean and interval over folds.
    metrics: Mapping[str, Interval]
    #: Fold to metric to value.
    scores: Mapping[FoldIndex, Mapping[str, float]]
    #: Fold to the key of its record.
    keys: Mapping[FoldIndex, str]
    #: Fold to the number of its test graphs.
    n_test: Mapping[FoldIndex, int]
    #: Fold to its weight in means: 1, or the number of test subjects if folds are sites.
    weights: Mapping[FoldIndex, float]
    #: Mean of tuning, fitting and predicting per fold.
    seconds: float
    use_unlabeled: bool
    #: Of ROC AUC > 0.5, Holm-adjusted over the methods of the table.
    p_chance: float = float("nan")
    verdict: str = ""
    #: Whether it is above chance and beats every other method, Holm-adjusted over all pairs.
    is_best: bool = False
    audit: Audit | None = None
    #: The method without its parameters, these, and what was searched over.
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Any] = field(default_factory=dict)
    #: Fold to its ROC AUC with what tests need.
    areas: Mapping[FoldIndex, FoldArea] = field(default_factory=dict, compare=False)

    @property
    def failed(self) -> int:
        return sum(self.failures.values())


@dataclass(frozen=True)
class ResultsTable:
    """All methods on one dataset under one protocol.

    ``versions`` are those of the packages that computed the records, separated by commas if there are several.
    ``sites`` says which sites were tested, if folds are sites. ``test`` is the key of
    :data:`isocapsnet.evaluation.procedures.TESTS` that intervals and p-values are from.
    """

    rows: Sequence[MethodResult]
    comparisons: Sequence[Comparison]
    test_over_train: float
    versions: Mapping[str, str]
    sites: Sites | None = None
    test: str = DEFAULT_TEST


def tabulate(
    records: Iterable[Mapping[str, Any]],
    errors: Iterable[Mapping[str, Any]] = (),
    test: str = DEFAULT_TEST,
    persons: NDArray[np.int64] | None = None,
) -> ResultsTable:
    """The table of records that share a dataset, a protocol and a preparation; ``errors`` are of failed jobs.

    ``persons`` (n_graphs,) numbers the person of each graph of the dataset, if people have several.
    """
    return tabulate_summaries((summarise(record, persons) for record in records), errors, test)


def tabulate_summaries(
    summaries: Iterable[Summary], errors: Iterable[Mapping[str, Any]] = (), test: str = DEFAULT_TEST
) -> ResultsTable:
    """The same from summaries of records."""
    procedure = TESTS[test]
    evidence: dict[Identity, Evidence] = {}
    ratios = []
    versions: dict[str, set[str]] = {}
    for summary in summaries:
        for package, version in summary.versions:
            versions.setdefault(package, set()).add(version)
        evidence.setdefault(summary.method, Evidence(summary.method, summary.method.label)).add(summary)
        ratios.append(summary.ratio)
    for error in errors:
        failed = identify(error["job"])
        method = evidence.setdefault(failed, Evidence(failed, failed.label))
        method.jobs += 1
        method.failures[error["reason"]] += 1
    ratio = float(np.mean(ratios)) if ratios else float("nan")
    methods = list(evidence.values())
    make_labels_unique(methods)
    pairs = comparisons.compare_all(methods, procedure)
    p_chance = comparisons.test_against_chance(methods, procedure)
    untestable = comparisons.find_untestable(methods, procedure)
    audits = comparisons.test_audits(methods, procedure)
    above_chance = {label for label, p_value in p_chance.items() if p_value <= LEVEL}
    best = comparisons.find_best([m for m in methods if not m.failures and m.label in above_chance], pairs)
    against_reference = comparisons.compare_with_reference(methods, procedure)
    sites = Sites.of(fold.sites for method in methods for fold in method.folds.values() if fold.sites is not None)
    rows = []
    for method in methods:
        row = replace(
            _summarise_method(method, procedure),
            p_chance=p_chance.get(method.label, float("nan")),
            is_best=method.label == best,
            audit=audits.get(method.label),
        )
        # If neither is above chance, neither is called worse than the other.
        relation = against_reference.get(method.label) if above_chance & {method.label, REFERENCE} else None
        can_test = len(row.scores) >= procedure.min_folds or row.p_chance < 1
        verdict = _verdict(row, relation, can_test, method.label in untestable, sites)
        rows.append(replace(row, verdict=verdict))
    used = {package: ", ".join(sorted(several)) for package, several in versions.items()}
    return ResultsTable(rows, pairs, ratio, used, sites, test)


def group_records(items: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Records or errors by their data, splits and preparation as JSON, of which a table has one each."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        job = item["job"]
        protocol = {name: job["protocol"][name] for name in ("name", "n_folds")}
        groups.setdefault(canonical_json([job["dataset"], protocol, job["preparation"]]), []).append(item)
    return groups


def _summarise_method(method: Evidence, procedure: Procedure) -> MethodResult:
    """The row without what depends on other rows."""
    name, parameters, _, space, *_ = json.loads(method.method.settings)
    folds = dict(sorted(method.folds.items()))
    areas = method.areas
    metrics = {
        name: procedure.area_interval(list(areas.values()))
        if name == "roc_auc"
        else procedure.mean_interval(
            [fold.scores[name] for fold in folds.values()],
            [fold.variances[name] for fold in folds.values()],
            list(areas.values()),
            (metric.low, metric.high),
        )
        for name, metric in METRICS.items()
    }
    n_test = {index: area.n_test for index, area in areas.items()}
    if 0 < len(folds) < procedure.min_folds:
        [total] = n_test.values()
        metrics["accuracy"] = wilson_interval(round(metrics["accuracy"].mean * total), total)
    return MethodResult(
        method=method.label,
        jobs=method.jobs,
        failures=dict(method.failures),
        metrics=metrics,
        scores={index: fold.scores for index, fold in folds.items()},
        keys={index: fold.key for index, fold in folds.items()},
        n_test=n_test,
        weights={index: area.weight for index, area in areas.items()},
        seconds=float(np.mean([fold.seconds for fold in folds.values()])) if folds else float("nan"),
        use_unlabeled=method.method.use_unlabeled,
        name=name,
        parameters=parameters,
        space=space,
        areas=areas,
    )


def _verdict(
    row: MethodResult, against_reference: str | None, can_test: bool, is_untestable: bool, sites: Sites | None
) -> str:
    """What the results show about one method."""
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
    if not can_test:
        return f"a single test fold allows no comparison, only its own interval{where}"
    if row.p_chance <= LEVEL:
        return "above chance" + (f", {against_reference}" if against_reference else "") + where
    below = against_reference is not None and against_reference.startswith("worse")
    verdict = "not distinguishable from chance" + (f", {against_reference}" if below else "")
    if is_untestable:
        verdict += f" ({len(row.scores)} folds are too few: a perfect score would not be distinguishable either)"
    return verdict + where
