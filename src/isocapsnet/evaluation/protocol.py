"""Which subjects train and which test; which labels are exchanged under the null; which settings are tuned.

Splits depend on (dataset, protocol, repeat) alone, so every method sees the same folds.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from isocapsnet._validation import InputError, check_number, check_option
from isocapsnet.evaluation.naming import seed_from
from isocapsnet.evaluation.study import Study

PROTOCOLS = ("nested", "paper", "leave-site-out")


#: Subjects of each of two classes without whom a site has no ROC AUC worth the name.
MIN_PER_CLASS = 2


class Split(NamedTuple):
    """Indices into the study of one fold's training and test subjects, all of them labelled.

    Where folds are sites, ``sites`` names those that are tested, and ``too_small`` those that no fold tests.
    """

    name: str
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    sites: tuple[str, ...] = ()
    too_small: tuple[str, ...] = ()


@dataclass(frozen=True)
class Protocol:
    """How methods are evaluated.

    Parameters
    ----------
    name : {"nested", "paper", "leave-site-out"}
        "nested": stratified k-fold, repeated, tuned inside each training fold. "paper": the dataset's own
        folds, or stratified k-fold, with each method's defaults. "leave-site-out": each site is the test set
        once, tuned inside the other sites; small sites are tested together, or only train.
    n_folds : int
        Outer folds, where the dataset does not give them.
    inner_folds : int
        Folds of the search inside a training fold; 0 keeps each method's defaults.
    n_candidates : int
        Settings tried by that search, at most.
    """

    name: str = "nested"
    n_folds: int = 3
    inner_folds: int = 3
    n_candidates: int = 8

    def __post_init__(self) -> None:
        check_option("protocol", self.name, PROTOCOLS)
        check_number("n_folds", self.n_folds, low=2, integer=True)
        check_number("inner_folds", self.inner_folds, low=0, integer=True)
        check_number("n_candidates", self.n_candidates, low=1, integer=True)

    @property
    def is_tuned(self) -> bool:
        return self.name != "paper" and self.inner_folds > 1 and self.n_candidates > 1

    def splits(self, study: Study, repeat: int) -> list[Split]:
        """The folds of one repeat."""
        if len(study.classes) < 2:
            raise InputError(
                f"The labels hold {len(study.classes)} class(es) among {len(study.known)} labelled graphs; "
                "a benchmark needs two. Check which column is the target."
            )
        if self.name == "leave-site-out":
            return _site_splits(study)
        if self.name == "paper" and study.folds is not None:
            return _predefined_splits(study)
        seed = seed_from("splits", study.digest, self.name, self.n_folds, repeat)
        groups = None if study.groups is None else study.groups[study.known]
        parts = stratified_folds(study.labels[study.known], groups, self.n_folds, seed)
        return [Split(f"fold {i + 1}", study.known[a], study.known[b]) for i, (a, b) in enumerate(parts)]

    def check_repeats(self, study: Study, repeats: int) -> None:
        """Refuse more repeats than there are different splits."""
        fixed = self.name == "leave-site-out" or (self.name == "paper" and study.folds is not None)
        if fixed and repeats > 1:
            what = "sites" if self.name == "leave-site-out" else "predefined folds"
            raise InputError(
                f"repeats={repeats}: the dataset's {what} give the same splits every time; use repeats=1, or "
                'the protocol "nested".'
            )


def stratified_folds(
    labels: NDArray[Any], groups: NDArray[Any] | None, n_folds: int, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """``n_folds`` pairs (training, test) of positions in ``labels``, stratified, one subject never on both sides."""
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


def inner_folds(
    labels: NDArray[Any], groups: NDArray[Any] | None, n_folds: int, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """As many stratified folds as classes and subjects allow, up to ``n_folds``; none below two."""
    for fewer in range(min(n_folds, _smallest_class(labels, groups)[1]), 1, -1):
        with suppress(InputError):
            return stratified_folds(labels, groups, fewer, seed)
    return []


def free_unlabelled(study: Study, protocol: Protocol, test: NDArray[np.int64]) -> NDArray[np.int64]:
    """The unlabelled graphs that may train: none of a person who is tested, nor of a site that is the test set."""
    extra, tested = study.unknown, []
    if study.subjects is not None:
        tested.append(np.isin(study.subjects[extra], study.subjects[test]))
    if study.sites is not None and protocol.name == "leave-site-out":
        tested.append(np.isin(study.sites[extra], study.sites[test]))
    return extra[~np.any(tested, axis=0)] if tested else extra


def null_order(study: Study, protocol: Protocol, permutation: int) -> NDArray[np.int64]:
    """Whose data stands at each place ``(n_graphs,)`` in one draw from the null hypothesis.

    Labels and folds keep their places, so a draw is as stratified as the data. A subject's graphs move
    together, among subjects with as many graphs; where labels differ inside subjects the graphs change places
    inside them instead. When sites are the folds, subjects stay in their site. Unlabelled subjects stay.
    """
    rng = np.random.default_rng(seed_from("null", study.digest, permutation))
    order = np.arange(len(study.X))
    known = study.known
    site = study.sites[known] if protocol.name == "leave-site-out" and study.sites is not None else None
    subject = study.groups[known] if study.groups is not None else known
    members: dict[Any, list[int]] = {}
    for index, owner in zip(known.tolist(), subject.tolist(), strict=True):
        members.setdefault(owner, []).append(index)
    if any(len(set(study.labels[graphs].tolist())) > 1 for graphs in members.values()):
        for graphs in members.values():
            order[graphs] = rng.permutation(graphs)
        return order
    site_of = {} if site is None else dict(zip(known.tolist(), site.tolist(), strict=True))
    alike: dict[Any, list[list[int]]] = {}
    for graphs in members.values():
        alike.setdefault(tuple(site_of.get(i) for i in graphs), []).append(graphs)
    for peers in alike.values():
        for place, source in enumerate(rng.permutation(len(peers))):
            order[peers[place]] = peers[source]
    return order


def _smallest_class(labels: NDArray[Any], groups: NDArray[Any] | None) -> tuple[Any, int]:
    """The class with the fewest graphs (or subjects), and how many."""
    counts = {
        label: int(np.sum(labels == label)) if groups is None else len(np.unique(groups[labels == label]))
        for label in np.unique(labels).tolist()
    }
    return min(counts.items(), key=lambda item: item[1])


def _predefined_splits(study: Study) -> list[Split]:
    """The dataset's own folds: each is the test set once, the others train."""
    folds = [np.intersect1d(fold, study.known) for fold in study.folds or ()]
    everyone = np.concatenate(folds)
    if len(np.unique(everyone)) < len(everyone):
        raise InputError('The predefined folds overlap, so test subjects would train; use the protocol "nested".')
    splits = []
    for number, test in enumerate(folds, start=1):
        train = np.setdiff1d(everyone, test)
        if study.groups is not None and np.isin(study.groups[train], study.groups[test]).any():
            raise InputError(
                f"Predefined fold {number} tests subjects that also train; "
                'use the protocol "nested", which keeps subjects whole.'
            )
        splits.append(_checked(study, Split(f"fold {number}", train, test)))
    return splits


def count_subjects(study: Study, graphs: NDArray[np.int64]) -> int:
    """Different subjects among some graphs."""
    return len(graphs) if study.groups is None else len(np.unique(study.groups[graphs]))


def _site_splits(study: Study) -> list[Split]:
    """Each site is the test set once; subjects seen there do not train.

    A site is tested alone when two classes have :data:`MIN_PER_CLASS` subjects or more there. Smaller sites that hold
    two classes are tested together, as one fold, when together they have as many. All others train only: a site of
    one class has no ROC AUC, and beside another one its area would measure the difference of the sites.
    """
    if study.sites is None or len(np.unique(study.sites[study.known])) < 2:
        raise InputError("leave-site-out needs labelled subjects of at least two sites; check the column of sites.")
    sites = study.sites
    names = np.unique(sites[study.known]).tolist()
    graphs_of = {site: study.known[sites[study.known] == site] for site in names}
    alone = [site for site in names if _can_be_scored(study, graphs_of[site])]
    mixed = [s for s in names if s not in alone and len(np.unique(study.labels[graphs_of[s]])) > 1]
    pooled = mixed if mixed and _can_be_scored(study, np.concatenate([graphs_of[site] for site in mixed])) else []
    folds = [(site,) for site in alone] + ([tuple(pooled)] if pooled else [])
    if not folds:
        raise InputError(
            f"None of the {len(names)} sites has {MIN_PER_CLASS} subjects of two classes, so none can be scored; use "
            'the protocol "nested" and name the column of sites as the group, which keeps sites whole.'
        )
    too_small = tuple(str(site) for site in names if site not in alone and site not in pooled)
    splits = []
    for members in folds:
        here = np.isin(sites[study.known], members)
        test, train = study.known[here], study.known[~here]
        if study.groups is not None:
            train = train[~np.isin(study.groups[train], study.groups[test])]
        tested = tuple(map(str, members))
        name = tested[0] if len(tested) == 1 else f"{len(tested)} small sites"
        splits.append(_checked(study, Split(name, train, test, tested, too_small)))
    return splits


def _can_be_scored(study: Study, graphs: NDArray[np.int64]) -> bool:
    """Whether two classes have enough subjects among these graphs."""
    counts = [count_subjects(study, graphs[study.labels[graphs] == label]) for label in study.classes]
    return sum(count >= MIN_PER_CLASS for count in counts) >= 2


def _checked(study: Study, split: Split) -> Split:
    if not len(split.test) or len(np.unique(study.labels[split.train])) < 2:
        raise InputError(
            f"{split.name}: {len(split.test)} test graphs, {len(split.train)} training graphs of "
            f"{len(np.unique(study.labels[split.train]))} class(es); two classes must be left for training."
        )
    return split
