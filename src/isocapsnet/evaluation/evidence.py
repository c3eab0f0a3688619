"""The scores of each method over its records. Of a record no more is kept than a table needs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from isocapsnet.evaluation.jobs import method_label
from isocapsnet.evaluation.metrics import roc_auc, score
from isocapsnet.evaluation.naming import canonical_json
from isocapsnet.evaluation.preparation import COVARIATES, name_covariates
from isocapsnet.evaluation.statistics import auc_variance, mean_variance

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

    ``scores`` has all metrics for the data as given, and ROC AUC alone for permutations and audits. ``counts``
    (n_classes,) are the test graphs of each class, ``ratio`` is n_test / n_train.
    """

    method: Identity
    index: FoldIndex
    permutation: int
    audit: int | None
    key: str
    scores: Mapping[str, float]
    counts: Sequence[int]
    seconds: float
    ratio: float
    sites: Mapping[str, Any] | None
    versions: tuple[tuple[str, str], ...]

    @property
    def weight(self) -> int:
        """The weight of the fold in means: its number of subjects if folds are sites, else 1."""
        return 1 if self.sites is None else int(self.sites["n_subjects"])


def summarise(record: Mapping[str, Any]) -> Summary:
    """The summary of a record."""
    job = record["job"]
    labels, probabilities = np.asarray(record["labels"]), np.asarray(record["probabilities"])
    is_plain = not job["permutation"] and job["audit"] is None
    return Summary(
        method=identify(job),
        index=(job["repeat"], job["fold"]),
        permutation=job["permutation"],
        audit=job["audit"],
        key=record["key"],
        scores=score(labels, probabilities) if is_plain else {"roc_auc": roc_auc(labels, probabilities)},
        counts=np.bincount(labels, minlength=len(record["classes"])).tolist(),
        seconds=sum(record["seconds"].values()),
        ratio=len(record["test"]) / record["n_train"],
        sites=record.get("sites"),
        versions=_shared(tuple(record.get("versions", {}).items())),
    )


def identify(job: Mapping[str, Any]) -> Identity:
    """The method of a job."""
    tuning = {name: value for name, value in job["protocol"].items() if name in ("inner_folds", "n_candidates")}
    settings = [job["method"], job["parameters"], job["version"], job["space"], tuning, job["use_unlabeled"]]
    details = [f"version {job['version']}", f"{tuning['n_candidates']} settings tried" if job["space"] else "not tuned"]
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
    """The scores of one method on the data as given, in audits and under the null, and its failures."""

    method: Identity
    label: str
    folds: dict[FoldIndex, Summary] = field(default_factory=dict)
    audits: dict[tuple[int, FoldIndex], float] = field(default_factory=dict)
    null: dict[int, dict[FoldIndex, float]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    jobs: int = 0

    def add(self, summary: Summary) -> None:
        self.jobs += 1
        if summary.audit is not None:
            self.audits[summary.audit, summary.index] = summary.scores["roc_auc"]
        elif summary.permutation:
            self.null.setdefault(summary.permutation, {})[summary.index] = summary.scores["roc_auc"]
        else:
            self.folds[summary.index] = summary

    def areas(self) -> dict[FoldIndex, float]:
        """The ROC AUC of each fold."""
        return {index: fold.scores["roc_auc"] for index, fold in self.folds.items()}

    def weights(self, indices: Iterable[FoldIndex] | None = None) -> list[int]:
        """The weights of some folds, or of all in their order."""
        return [self.folds[index].weight for index in (self.folds if indices is None else indices)]

    def area_variance(self, area: float) -> float:
        """The variance of the ROC AUC of one fold that the test folds imply, if its expectation is ``area``."""
        variances = [auc_variance(area, fold.counts) for fold in self.folds.values()]
        return mean_variance(variances, self.weights())


def make_labels_unique(methods: Sequence[Evidence]) -> None:
    """Add version and tuning to labels that occur more than once."""
    counts = Counter(method.label for method in methods)
    seen: Counter[str] = Counter()
    for method in methods:
        if counts[method.label] > 1:
            name = f"{method.label} ({method.method.details})"
            seen[name] += 1
            method.label = name if seen[name] == 1 else f"{name} #{seen[name]}"
