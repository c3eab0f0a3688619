"""From records to a table with a verdict in words for each method."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
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
from isocapsnet.evaluation.omissions import count_omissions
from isocapsnet.evaluation.preparation import COVARIATES
from isocapsnet.evaluation.procedures import DEFAULT_TEST, TESTS, Procedure
from isocapsnet.evaluation.shares import CurvePoint, learning_curve
from isocapsnet.evaluation.site_scores import SiteResults, score_sites
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
    #: Whether it is above chance, beats every other method, Holm-adjusted over all pairs, and every control.
    is_best: bool = False
    audit: Audit | None = None
    #: The method without its parameters, these, and what was searched over.
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Any] = field(default_factory=dict)
    #: What a control is given instead of graphs; empty for all other methods.
    covariates: Sequence[str] = ()
    #: The controls that the method is not shown to be better than.
    not_better_than: Sequence[str] = ()
    #: Fold to its ROC AUC with what tests need.
    areas: Mapping[FoldIndex, FoldArea] = field(default_factory=dict, compare=False)
    #: ROC AUC by the share of the training subjects; empty if none but the whole was used.
    curve: Sequence[CurvePoint] = ()
    #: What the searches could not try, such as "transform=tangent", to the number of folds and the first reason.
    left_out: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    #: Shares of the learning curve whose jobs failed, to their number and the first reason.
    curve_gaps: Mapping[float, tuple[int, str]] = field(default_factory=dict)

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
    #: The scores of each site and their summary, if folds are sites.
    site_results: SiteResults | None = None


def tabulate(
    records: Iterable[Mapping[str, Any]],
    errors: Iterable[Mapping[str, Any]] = (),
    test: str = DEFAULT_TEST,
    persons: NDArray[np.int64] | None = None,
) -> ResultsTable:
    """The table of records that share a dataset, a protocol and a preparation; ``errors`` are of failed jobs.

    ``persons`` (n_graphs,) numbers the person of each graph of the dataset, if people have several. ``test`` is
    a name in ``TESTS``.
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
        if summary.share == 1:
            ratios.append(summary.ratio)
    for error in errors:
        failed, share = identify(error["job"]), error["job"].get("share", 1)
        if share < 1:  # a gap in a learning curve; the method itself has not failed
            if failed in evidence:
                evidence[failed].curve_gaps.append((share, error["reason"]))
            continue
        method = evidence.setdefault(failed, Evidence(failed, failed.label))
        method.jobs += 1
        method.failures[error["reason"]] += 1
    ratio = float(np.mean(ratios)) if ratios else float("nan")
    everything = list(evidence.values())
    make_labels_unique(everything)
    # A control claims nothing about graphs, so it belongs to no family of tests of the others.
    controls = [method for method in everything if method.method.covariates]
    methods = [method for method in everything if not method.method.covariates]
    pairs = comparisons.compare_all(methods, procedure)
    p_chance = comparisons.chance_p_values(methods, procedure)
    untestable = comparisons.find_untestable(methods, procedure)
    audits = comparisons.compare_audits(methods, procedure)
    for control in controls:
        p_chance |= comparisons.chance_p_values([control], procedure)
        untestable |= comparisons.find_untestable([control], procedure)
    against_controls = _compare_with_controls(methods, controls, procedure)
    above_chance = {label for label, p_value in p_chance.items() if p_value <= LEVEL}
    no_better = {
        label: [control for control, relation in words.items() if not relation.startswith("better")]
        for label, words in against_controls.items()
    }
    candidates = [m for m in methods if not m.failures and m.label in above_chance and not no_better.get(m.label)]
    best = comparisons.find_best(candidates, pairs)
    against_reference = comparisons.compare_with_reference(methods, procedure)
    sites = Sites.of(fold.sites for method in everything for fold in method.folds.values() if fold.sites is not None)
    rows = []
    for method in everything:
        row = replace(
            _summarise_method(method, procedure),
            p_chance=p_chance.get(method.label, float("nan")),
            is_best=method.label == best,
            audit=audits.get(method.label),
            not_better_than=no_better.get(method.label, ()),
        )
        # If neither is above chance, neither is called worse than the other.
        relation = against_reference.get(method.label) if above_chance & {method.label, REFERENCE} else None
        if method.label in above_chance and method.label in against_controls:
            relation = ", ".join(filter(None, [relation, *against_controls[method.label].values()]))
        can_test = len(row.scores) >= procedure.min_folds or row.p_chance < 1
        verdict = _verdict(row, relation, can_test, method.label in untestable, sites)
        rows.append(replace(row, verdict=verdict))
    used = {package: ", ".join(sorted(several)) for package, several in versions.items()}
    return ResultsTable(rows, pairs, ratio, used, sites, test, score_sites(everything))


def _compare_with_controls(
    methods: Sequence[Evidence], controls: Sequence[Evidence], procedure: Procedure
) -> dict[str, dict[str, str]]:
    """Label to control to words: how a method compares with it. A method that is not shown to be better is not."""
    words: dict[str, dict[str, str]] = {}
    for control in controls:
        for label, relation in comparisons.compare_with_reference(
            [*methods, control], procedure, control.label
        ).items():
            is_clear = relation.startswith(("better", "worse", "equivalent"))
            words.setdefault(label, {})[control.label] = (
                relation if is_clear else f"not shown to be better than {control.label}"
            )
    return words


def group_records(items: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Records or errors by their data, splits and preparation as JSON, of which a table has one each."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        job = item["job"]
        protocol = {name: job["protocol"][name] for name in ("name", "n_folds")}
        shared = [step for step in job["preparation"] if step["name"] != COVARIATES]
        groups.setdefault(canonical_json([job["dataset"], protocol, shared]), []).append(item)
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
        covariates=method.method.covariates,
        areas=areas,
        curve=learning_curve({**method.shares, 1.0: areas}, procedure),
        left_out=count_omissions(pair for fold in folds.values() for pair in fold.left_out.items()),
        curve_gaps=count_omissions(method.curve_gaps),
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
        alone = f" from {list_some(row.covariates)} alone" if row.covariates else ""
        return f"above chance{alone}" + (f", {against_reference}" if against_reference else "") + where
    below = against_reference is not None and against_reference.startswith("worse")
    verdict = "not distinguishable from chance" + (f", {against_reference}" if below else "")
    if is_untestable:
        verdict += " (too few folds or permutations: even a perfect score would not be above chance)"
    return verdict + where
