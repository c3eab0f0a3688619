"""The scores of each method over its records. Of a record no more is kept than a table needs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocapsnet.evaluation.areas import FoldArea, design_effect
from isocapsnet.evaluation.jobs import method_label
from isocapsnet.evaluation.metrics import roc_auc, score, score_variances
from isocapsnet.evaluation.naming import canonical_json
from isocapsnet.evaluation.preparation import COVARIATES, NO_TRANSFORM, TRANSFORM, name_covariates

#: (repeat, fold)
FoldIndex = tuple[int, int]


class Identity(NamedTuple):
    """A method with its parameters, version and tuning: one row of a table."""

    settings: str
    label: str
    use_unlabeled: bool
    details: str
    #: What a control is given instead of graphs; empty for all other methods.
    covariates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """One record, summarised. All records of a large benchmark may not fit into memory, their summaries do.

    ``scores`` has all metrics for the data as given, and ROC AUC alone for permutations and audits. ``variances`` has
    those of all metrics but ROC AUC, for the data as given. ``area`` is None for permutations. ``ratio`` is
    n_test / n_train.
    """

    method: Identity
    index: FoldIndex
    permutation: int
    audit: int | None
    key: str
    scores: Mapping[str, float]
    variances: Mapping[str, float]
    area: FoldArea | None
    seconds: float
    ratio: float
    sites: Mapping[str, Any] | None
    versions: tuple[tuple[str, str], ...]
    share: float = 1.0
    #: What the search could not try, with the reasons.
    left_out: Mapping[str, str] = field(default_factory=dict)


def summarise(record: Mapping[str, Any], persons: NDArray[np.int64] | None = None) -> Summary:
    """The summary of a record.

    ``persons`` (n_graphs,) numbers the person of each graph of the dataset, if people have several.
    """
    job = record["job"]
    labels, probabilities = np.asarray(record["labels"]), np.asarray(record["probabilities"])
    share = job.get("share", 1.0)
    is_plain = not job["permutation"] and job["audit"] is None and share == 1
    sites = record.get("sites")
    # The weight of the fold in means is its number of subjects if folds are sites, else 1.
    weight = 1 if sites is None else int(sites["n_subjects"])
    tested = None if persons is None else persons[record["test"]]
    fold = record["n_train"], weight, tested, record["test"]
    area = None if job["permutation"] else FoldArea.of(labels, probabilities, *fold)
    widening = 1.0 if area is None else design_effect(area.placements, area.labels, tested)
    variances = score_variances(labels, probabilities) if is_plain else {}
    return Summary(
        method=identify(job),
        index=(job["repeat"], job["fold"]),
        permutation=job["permutation"],
        audit=job["audit"],
        key=record["key"],
        scores=score(labels, probabilities) if is_plain else {"roc_auc": roc_auc(labels, probabilities)},
        variances={name: variance * widening for name, variance in variances.items()},
        area=area,
        seconds=sum(record["seconds"].values()),
        ratio=len(record["test"]) / record["n_train"],
        sites=sites,
        versions=_shared(tuple(record.get("versions", {}).items())),
        share=share,
        left_out=record.get("left_out", {}) if is_plain else {},
    )


def identify(job: Mapping[str, Any]) -> Identity:
    """The method of a job."""
    tuning = {n: v for n, v in job["protocol"].items() if n in ("inner_folds", "n_candidates", "search")}
    settings = [job["method"], job["parameters"], job["version"], job["space"], tuning, job["use_unlabeled"]]
    how = f" by {tuning['search']}" if "search" in tuning else ""
    tried = f"{tuning['n_candidates']} settings tried{how}" if job["space"] else "not tuned"
    details = [f"version {job['version']}", tried]
    chosen = job["space"].get(TRANSFORM, [])
    details += [f"transform chosen from {', '.join(chosen)}"] if NO_TRANSFORM in chosen else []
    details += ["with unlabelled graphs"] if job["use_unlabeled"] else []
    covariates = [n for step in job["preparation"] if step["name"] == COVARIATES for n in name_covariates(step)]
    settings += [covariates] if covariates else []
    details += [f"from {', '.join(covariates)}"] if covariates else []
    label = method_label(job["method"], job["parameters"])
    identity = Identity(canonical_json(settings), label, job["use_unlabeled"], ", ".join(details), tuple(covariates))
    return _shared(identity)


@lru_cache(maxsize=256)
def _shared(value: Any) -> Any:
    """Equal values as one object: there are as many of them as records."""
    return value


@dataclass
class Evidence:
    """The scores of one method on the data as given, in audits, with fewer training subjects and under the null."""

    method: Identity
    label: str
    folds: dict[FoldIndex, Summary] = field(default_factory=dict)
    audits: dict[FoldIndex, list[FoldArea]] = field(default_factory=dict)
    shares: dict[float, dict[FoldIndex, FoldArea]] = field(default_factory=dict)
    null: dict[int, dict[FoldIndex, float]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    #: The share and the reason of each failed job of the learning curve.
    curve_gaps: list[tuple[float, str]] = field(default_factory=list)
    jobs: int = 0

    def add(self, summary: Summary) -> None:
        self.jobs += 1
        if summary.area is None:
            self.null.setdefault(summary.permutation, {})[summary.index] = summary.scores["roc_auc"]
        elif summary.share < 1:
            self.shares.setdefault(summary.share, {})[summary.index] = summary.area
        elif summary.audit is not None:
            self.audits.setdefault(summary.index, []).append(summary.area)
        else:
            self.folds[summary.index] = summary

    @property
    def areas(self) -> dict[FoldIndex, FoldArea]:
        """The ROC AUC of each fold, sorted."""
        return {index: fold.area for index, fold in sorted(self.folds.items()) if fold.area is not None}

    @property
    def audited_areas(self) -> dict[FoldIndex, FoldArea]:
        """The ROC AUC of each fold with shuffled nodes, the mean over audits."""
        return {index: _mean_area(several) for index, several in self.audits.items()}


def _mean_area(folds: Sequence[FoldArea]) -> FoldArea:
    """The mean over evaluations of one test fold."""
    area, placements = np.mean([fold.area for fold in folds]), np.mean([fold.placements for fold in folds], axis=0)
    return replace(folds[0], area=float(area), placements=placements, ranks=None)


def make_labels_unique(methods: Sequence[Evidence]) -> None:
    """Add version and tuning to labels that occur more than once."""
    counts = Counter(method.label for method in methods)
    seen: Counter[str] = Counter()
    for method in methods:
        if counts[method.label] > 1:
            name = f"{method.label} ({method.method.details})"
            seen[name] += 1
            method.label = name if seen[name] == 1 else f"{name} #{seen[name]}"
