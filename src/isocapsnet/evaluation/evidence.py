"""What was found of each method, no more of a record than a table needs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from isocapsnet.evaluation import statistics
from isocapsnet.evaluation.jobs import method_label
from isocapsnet.evaluation.naming import canonical_json

#: (repeat, fold)
Place = tuple[int, int]


class Fold(NamedTuple):
    """What the table needs of one record; ``counts`` (n_classes,) are those of its test graphs."""

    key: str
    scores: Mapping[str, float]
    counts: Sequence[int]
    seconds: float
    weight: int
    sites: Mapping[str, Any] | None


@dataclass
class Evidence:
    """What was found of one method on the data, in audits and under the null, and failures.

    Of a record no more is kept than the table needs: all of them may be more than fits into memory.
    """

    label: str
    use_unlabeled: bool
    details: str
    data: dict[Place, Fold] = field(default_factory=dict)
    audits: dict[tuple[int, Place], float] = field(default_factory=dict)
    null: dict[int, dict[Place, float]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    jobs: int = 0

    def add(self, record: Mapping[str, Any]) -> None:
        job = record["job"]
        place = (job["repeat"], job["fold"])
        self.jobs += 1
        if not job["permutation"] and job["audit"] is None:
            self.data[place] = Fold(
                record["key"],
                statistics.score(record["labels"], record["probabilities"]),
                np.bincount(record["labels"], minlength=len(record["classes"])).tolist(),
                sum(record["seconds"].values()),
                (record.get("sites") or {}).get("n_subjects", 1),
                record.get("sites"),
            )
            return
        area = statistics.roc_auc(np.asarray(record["labels"]), np.asarray(record["probabilities"]))
        if job["audit"] is not None:
            self.audits[job["audit"], place] = area
        else:
            self.null.setdefault(job["permutation"], {})[place] = area

    def areas(self) -> dict[Place, float]:
        return {place: fold.scores["roc_auc"] for place, fold in self.data.items()}

    def weights(self, places: Iterable[Place] | None = None) -> list[int]:
        """The weights of some folds, or of all in their order."""
        return [self.data[place].weight for place in (self.data if places is None else places)]

    def area_variance(self, area: float) -> float:
        """What the test folds imply for the variance of one fold's ROC AUC, were ``area`` its expectation."""
        variances = [statistics.auc_variance(area, fold.counts) for fold in self.data.values()]
        return statistics.mean_variance(variances, self.weights())


def evidence_of(item: Mapping[str, Any], evidence: dict[str, Evidence]) -> Evidence:
    """The evidence of the method that a record or error is of, in the same version, tuned alike."""
    job = item["job"]
    label = method_label(job["method"], job["parameters"])
    tuning = {name: value for name, value in job["protocol"].items() if name in ("inner_folds", "n_candidates")}
    settings = [job["method"], job["parameters"], job["version"], job["space"], tuning, job["use_unlabeled"]]
    identity = canonical_json(settings)
    details = [f"version {job['version']}", f"{tuning['n_candidates']} settings tried" if job["space"] else "not tuned"]
    details += ["with unlabelled graphs"] if job["use_unlabeled"] else []
    return evidence.setdefault(identity, Evidence(label, job["use_unlabeled"], ", ".join(details)))


def tell_apart(methods: Sequence[Evidence]) -> None:
    """Give rows that would have the same name (another version, tuned otherwise) names of their own."""
    labels = Counter(found.label for found in methods)
    seen: Counter[str] = Counter()
    for found in methods:
        if labels[found.label] > 1:
            name = f"{found.label} ({found.details})"
            seen[name] += 1
            found.label = name if seen[name] == 1 else f"{name} #{seen[name]}"
