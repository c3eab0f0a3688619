"""Which subjects train and which test; which labels are exchanged under the null; which settings are tuned.

Splits depend on (dataset, protocol, repeat) alone, so every method sees the same folds. A new protocol is one entry of
:data:`PROTOCOLS`.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from isocapsnet._validation import InputError, check_number, check_option
from isocapsnet.evaluation.naming import seed_from
from isocapsnet.evaluation.samples import Samples
from isocapsnet.evaluation.search import SEARCHES, count_fits

#: Pairs (training, test) of positions in an array of labels.
Folds = list[tuple[NDArray[np.int64], NDArray[np.int64]]]
#: A site is a test fold if two classes have at least this many subjects there.
MIN_PER_CLASS = 2


class Split(NamedTuple):
    """Indices of the training and test graphs of one fold, all of them labelled.

    If folds are sites, ``sites`` names the one that is tested, and ``too_small`` those that no fold tests.
    """

    name: str
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    sites: tuple[str, ...] = ()
    too_small: tuple[str, ...] = ()


@dataclass(frozen=True)
class Protocol:
    """How methods are evaluated.

    "nested": stratified k-fold, repeated, tuned inside each training fold. "paper": the dataset's own folds, or
    stratified k-fold, with each method's defaults. "leave-site-out": each site is the test set once, tuned inside the
    other sites; sites that are too small to be scored only train.
    """

    #: A key of :data:`PROTOCOLS`.
    name: str = "nested"
    #: Outer folds, if the dataset does not define them.
    n_folds: int = 3
    #: Folds of the search inside a training fold; 0 keeps each method's defaults.
    inner_folds: int = 3
    #: The largest number of settings that the search tries.
    n_candidates: int = 8
    #: A key of ``SEARCHES``.
    search: str = "halving"

    def __post_init__(self) -> None:
        check_option("protocol", self.name, tuple(PROTOCOLS))
        check_number("n_folds", self.n_folds, low=2, integer=True)
        check_number("inner_folds", self.inner_folds, low=0, integer=True)
        check_number("n_candidates", self.n_candidates, low=1, integer=True)
        check_option("search", self.search, tuple(SEARCHES))

    @property
    def scheme(self) -> "Scheme":
        """The entry of ``PROTOCOLS``."""
        return PROTOCOLS[self.name]

    @property
    def is_tuned(self) -> bool:
        """Whether settings are searched inside each training fold."""
        return self.scheme.is_tuned and self.inner_folds > 1 and self.n_candidates > 1

    def to_json(self) -> dict[str, Any]:
        """The fields. An exhaustive search is not named, as in the records of versions that had no other."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("search", "exhaustive")}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The protocol of a record; those of earlier versions have no search, which was exhaustive."""
        return cls(**{"search": "exhaustive", **content})

    def count_inner_fits(self, n_candidates: int) -> int:
        """The largest number of fits in a search among ``n_candidates`` settings."""
        return count_fits(self.search, n_candidates, self.inner_folds) if self.is_tuned else 0

    def splits(self, samples: Samples, repeat: int) -> list[Split]:
        """The folds of one repeat."""
        return _splits(self.name, self.n_folds, samples, repeat)

    def check_repeats(self, samples: Samples, repeats: int) -> None:
        """Refuse more repeats than there are different splits."""
        fixed = self.scheme.fixed_by(samples)
        if fixed is not None and repeats > 1:
            raise InputError(
                f"repeats={repeats}: the dataset's {fixed} give the same splits in every repeat; use repeats=1, or "
                'protocol="nested".'
            )


@lru_cache(maxsize=8)
def _splits(name: str, n_folds: int, samples: Samples, repeat: int) -> list[Split]:
    """The folds of one repeat, computed once for all jobs and tables of this process that need them."""
    if len(samples.labelled) == 0:
        raise InputError("The graphs have no labels; name the column of the classes with target=.")
    if len(samples.classes) < 2:
        raise InputError(
            f"All {len(samples.labelled)} labelled graphs are of one class; a benchmark needs two. Check which column "
            "is the target."
        )
    seed = seed_from("splits", samples.digest, name, n_folds, repeat)
    return PROTOCOLS[name].split(samples, n_folds, seed)


def stratified_folds(labels: NDArray[Any], groups: NDArray[Any] | None, n_folds: int, seed: int) -> Folds:
    """``n_folds`` folds, stratified, one subject never on both sides."""
    smallest, count = _smallest_class(labels, groups)
    if count < n_folds:
        who = "graphs" if groups is None else "subjects"
        raise InputError(
            f"Class {smallest!r} has {count} {who}, fewer than the {n_folds} folds; use fewer folds or add subjects."
        )
    splitter: Any = StratifiedKFold if groups is None else StratifiedGroupKFold
    parts = list(splitter(n_folds, shuffle=True, random_state=seed).split(labels, labels, groups))
    for train, test in parts:
        if not len(test) or len(np.unique(labels[train])) < len(np.unique(labels)):
            raise InputError(
                f"{n_folds} folds cannot keep each subject whole and each class in training; use fewer folds."
            )
    return parts


def inner_folds(labels: NDArray[Any], groups: NDArray[Any] | None, n_folds: int, seed: int) -> Folds:
    """As many stratified folds as classes and subjects allow, up to ``n_folds``; none below two."""
    for fewer in range(min(n_folds, _smallest_class(labels, groups)[1]), 1, -1):
        with suppress(InputError):
            return stratified_folds(labels, groups, fewer, seed)
    return []


def free_unlabelled(samples: Samples, protocol: Protocol, test: NDArray[np.int64]) -> NDArray[np.int64]:
    """The unlabelled graphs that may train: none of a person or a site that is tested."""
    extra = samples.unlabelled
    is_tested = np.isin(samples.subjects[extra], samples.subjects[test])
    if samples.sites is not None and protocol.scheme.keeps_sites:
        is_tested |= np.isin(samples.sites[extra], samples.sites[test])
    return extra[~is_tested]


def null_order(samples: Samples, protocol: Protocol, permutation: int) -> NDArray[np.int64]:
    """One draw from the null hypothesis: the index of the graph that takes the position of each graph ``(n_graphs,)``.

    Labels and folds stay, so a draw is as stratified as the data. The graphs of a subject move together and are
    exchanged with those of a subject with as many graphs; if labels differ inside subjects, graphs are exchanged
    inside each subject instead. If sites are the folds, subjects stay in their site. Unlabelled graphs stay.
    """
    rng = np.random.default_rng(seed_from("null", samples.digest, permutation))
    order = np.arange(len(samples))
    labelled = samples.labelled
    sites = samples.sites if protocol.scheme.keeps_sites else None
    subject = samples.groups[labelled] if samples.groups is not None else labelled
    members: dict[Any, list[int]] = {}
    for index, owner in zip(labelled.tolist(), subject.tolist(), strict=True):
        members.setdefault(owner, []).append(index)
    if any(len(set(samples.labels[graphs].tolist())) > 1 for graphs in members.values()):
        for graphs in members.values():
            order[graphs] = rng.permutation(graphs)
        return order
    alike: dict[Any, list[list[int]]] = {}
    for graphs in members.values():
        alike.setdefault(len(graphs) if sites is None else tuple(sites[graphs]), []).append(graphs)
    for peers in alike.values():
        for target, source in enumerate(rng.permutation(len(peers))):
            order[peers[target]] = peers[source]
    return order


def _smallest_class(labels: NDArray[Any], groups: NDArray[Any] | None) -> tuple[Any, int]:
    """The class with the fewest graphs (or subjects), and how many."""
    counts = {
        label: int(np.sum(labels == label)) if groups is None else len(np.unique(groups[labels == label]))
        for label in np.unique(labels).tolist()
    }
    return min(counts.items(), key=lambda item: item[1])


def _stratified_splits(samples: Samples, n_folds: int, seed: int) -> list[Split]:
    groups = None if samples.groups is None else samples.groups[samples.labelled]
    parts = stratified_folds(samples.labels[samples.labelled], groups, n_folds, seed)
    return [Split(f"fold {i + 1}", samples.labelled[a], samples.labelled[b]) for i, (a, b) in enumerate(parts)]


def _predefined_splits(samples: Samples, n_folds: int, seed: int) -> list[Split]:
    """The dataset's own folds: each is the test set once, the others train. Stratified folds if it has none."""
    if not len(samples.folds):
        return _stratified_splits(samples, n_folds, seed)
    folds = [np.intersect1d(fold, samples.labelled) for fold in samples.folds]
    everyone = np.concatenate(folds)
    if len(np.unique(everyone)) < len(everyone):
        raise InputError('The predefined folds overlap, so test subjects would train; use protocol="nested".')
    splits = []
    for number, test in enumerate(folds, start=1):
        train = np.setdiff1d(everyone, test)
        if samples.groups is not None and np.isin(samples.groups[train], samples.groups[test]).any():
            raise InputError(
                f"Predefined fold {number} tests subjects that also train; "
                'use protocol="nested", which keeps subjects whole.'
            )
        splits.append(_checked(samples, Split(f"fold {number}", train, test)))
    return splits


def count_subjects(samples: Samples, graphs: NDArray[np.int64]) -> int:
    """Different subjects among some graphs."""
    return len(graphs) if samples.groups is None else len(np.unique(samples.groups[graphs]))


def _site_splits(samples: Samples, n_folds: int, seed: int) -> list[Split]:
    """Each site is the test set once; subjects seen there do not train.

    A site is a fold if two classes have :data:`MIN_PER_CLASS` subjects or more there; all others only train. Small
    sites are never tested together: where the share of cases differs between them, the ROC AUC would measure the
    difference between the sites.
    """
    if samples.sites is None:
        raise InputError("leave-site-out needs subjects of at least two sites; name the column of sites with site=.")
    if len(found := np.unique(samples.sites[samples.labelled])) < 2:
        raise InputError(
            "leave-site-out needs labelled subjects of at least two sites, but all are of "
            f"{', '.join(map(str, found))}; choose another protocol."
        )
    sites = samples.sites
    names = np.unique(sites[samples.labelled]).tolist()
    graphs_of = {site: samples.labelled[sites[samples.labelled] == site] for site in names}
    tested = [site for site in names if _can_be_scored(samples, graphs_of[site])]
    if not tested:
        raise InputError(
            f"None of the {len(names)} sites has {MIN_PER_CLASS} subjects in each of two classes; use "
            'protocol="nested" with the column of sites as group, which keeps sites whole.'
        )
    too_small = tuple(str(site) for site in names if site not in tested)
    splits = []
    for site in tested:
        test = graphs_of[site]
        train = np.setdiff1d(samples.labelled, test)
        if samples.groups is not None:
            train = train[~np.isin(samples.groups[train], samples.groups[test])]
        splits.append(_checked(samples, Split(str(site), train, test, (str(site),), too_small)))
    return splits


def _can_be_scored(samples: Samples, graphs: NDArray[np.int64]) -> bool:
    """Whether two classes have enough subjects among these graphs."""
    counts = [count_subjects(samples, graphs[samples.labels[graphs] == label]) for label in samples.classes]
    return sum(count >= MIN_PER_CLASS for count in counts) >= 2


def _checked(samples: Samples, split: Split) -> Split:
    n_classes = len(np.unique(samples.labels[split.train]))
    if not len(split.test) or n_classes < 2:
        raise InputError(
            f"{split.name}: {len(split.test)} test graphs, {len(split.train)} training graphs of "
            f"{n_classes} class{'es' * (n_classes != 1)}; two classes must be left for training."
        )
    return split


@dataclass(frozen=True)
class Scheme:
    """A protocol: how it splits, and what follows from that."""

    #: ``split(samples, n_folds, seed)`` returns the folds of one repeat.
    split: Callable[[Samples, int, int], list[Split]]
    #: Whether settings are searched inside each training fold.
    is_tuned: bool = True
    #: ``fixed_by(samples)`` says what part of the dataset defines the folds, or None if ``seed`` does.
    fixed_by: Callable[[Samples], str | None] = lambda samples: None
    #: Repeats of the cross-validation, if a benchmark does not say how many.
    n_repeats: int = 1
    #: Whether folds are sites. Subjects then stay in their site under the null, and folds are weighted by subjects.
    keeps_sites: bool = False


PROTOCOLS: dict[str, Scheme] = {
    "nested": Scheme(_stratified_splits, n_repeats=5),
    "paper": Scheme(
        _predefined_splits,
        is_tuned=False,
        fixed_by=lambda samples: "predefined folds" if len(samples.folds) else None,
    ),
    "leave-site-out": Scheme(_site_splits, fixed_by=lambda samples: "sites", keeps_sites=True),
}
