"""Build an estimator, tune it inside a training fold and check its probabilities."""

import pkgutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ParameterGrid, ParameterSampler

from isocapsnet._packages import MissingPackageError
from isocapsnet._stages import enter_stage
from isocapsnet.evaluation.failures import cut, describe_failure
from isocapsnet.evaluation.inner_scores import InnerScores, name_fold
from isocapsnet.evaluation.metrics import roc_auc
from isocapsnet.evaluation.preparation import NO_TRANSFORM, TRANSFORM, Preparation
from isocapsnet.evaluation.protocol import Folds, Protocol, inner_folds
from isocapsnet.evaluation.samples import Samples
from isocapsnet.evaluation.search import SEARCHES, count_fits, race

#: What is left out of a search without inner folds.
_ANY_SETTING = "any other setting than the defaults"
# What a record says about settings that its search could not try: so many of them, and so many characters of each.
_MOST_OMISSIONS, _LONGEST_OMISSION = 50, 300

Fit = Callable[[Mapping[str, Any], NDArray[Any], NDArray[Any]], Any]


def build_estimator(factory: str, parameters: Mapping[str, Any], seed: int) -> Any:
    """The estimator with these parameters; ``seed`` replaces every ``random_state`` that is None, also in its steps."""
    model = pkgutil.resolve_name(factory)
    estimator = model(**{name: as_tuples(value) for name, value in parameters.items()})
    unseeded = {
        name: seed
        for name, value in estimator.get_params().items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return estimator.set_params(**unseeded) if unseeded else estimator


def predict_probabilities(estimator: Any, X: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities ``(n_graphs, n_classes)`` in the order of ``classes``; 0 for classes without training graphs."""
    predicted = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    expected = (len(X), len(estimator.classes_))
    if predicted.shape != expected:
        raise ValueError(f"predict_proba returned shape {predicted.shape} instead of {expected}.")
    wrong = ~np.isfinite(predicted).all(axis=1)
    if wrong.any():
        raise ValueError(f"predict_proba returned NaN or infinite values for {wrong.sum()} of {len(X)} graphs.")
    if (predicted < 0).any() or not np.allclose(predicted.sum(axis=1), 1, atol=1e-4):
        raise ValueError("predict_proba returned rows that are not probabilities (negative, or not summing to 1).")
    probabilities = np.zeros((len(X), len(classes)))
    probabilities[:, np.searchsorted(classes, estimator.classes_)] = predicted
    return probabilities


def list_candidates(
    space: Mapping[str, Sequence[Any]], defaults: Mapping[str, Any], limit: int, seed: int
) -> list[dict[str, Any]]:
    """At most ``limit`` settings: the defaults (an empty setting), then the whole grid or a sample of it.

    Transforms among which the search chooses are all tried, with the defaults of the method, before the rest.
    """

    def changes(setting: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in setting.items() if defaults[name] != as_tuples(value)}

    grid = ParameterGrid(dict(space))
    first = [{}, *({TRANSFORM: name} for name in space.get(TRANSFORM, ()) if name != defaults[TRANSFORM])]
    drawn = grid if len(grid) < limit else ParameterSampler(dict(space), max(limit - len(first), 0), random_state=seed)
    return [*first, *(setting for setting in drawn if changes(setting) not in first)][:limit]


class Fitter:
    """Fits a method after its preparation: the candidates of a search, then the settings that it has chosen.

    Parameters
    ----------
    factory, parameters
        The estimator: its import path, and the arguments that are not searched.
    preparation : Preparation
        With the transforms among which the search may choose.
    samples : Samples
    extra : array of indices
        Unlabelled subjects that the estimator is given, too.
    seed : int
        Of the estimator.

    Attributes
    ----------
    left_out : dict
        What the last search could not try, such as "transform=tangent", to the first reason.
    """

    def __init__(
        self,
        factory: str,
        parameters: Mapping[str, Any],
        preparation: Preparation,
        samples: Samples,
        extra: NDArray[np.int64],
        seed: int,
    ) -> None:
        self.factory, self.parameters, self.seed = factory, parameters, seed
        self.preparation, self.samples, self.extra = preparation, samples, extra
        self._chooses_transform = bool(preparation.choices)
        self.left_out: dict[str, str] = {}

    def search(
        self,
        space: Mapping[str, Any],
        protocol: Protocol,
        train: NDArray[np.int64],
        labels: NDArray[Any],
        groups: NDArray[Any] | None,
        seed: Callable[[str], int],
        scores: InnerScores | None = None,
    ) -> dict[str, Any]:
        """The settings of ``space`` that inner folds of ``train`` favour; the preparation takes the chosen transform.

        ``seed(purpose)`` is a seed. Empty if the defaults are best, if there is nothing to search, or if there are too
        few subjects for inner folds. ``scores`` are those of earlier inner fits; new ones are added.
        """
        settings: dict[str, Any] = {}
        self.left_out = {}
        folds = inner_folds(labels, groups, protocol.inner_folds, seed("inner folds")) if space else []
        if space and not folds:
            _leave_out(_ANY_SETTING, "a class has too few training subjects for inner folds", self.left_out)
        elif folds:
            candidates, defaults = self.list_candidates(space, protocol, seed)
            # Calibration does not change ranks, so the fits of a search leave it out. Those of Iso-CapsNet are then the
            # network of the paper alone, which is what its search is about.
            fit = partial(self.fit, calibrate=False) if "calibrate" in defaults else self.fit
            how = protocol.search, scores, self.left_out
            settings = tune(candidates, folds, fit, self.preparation, self.samples, train, labels, *how)
        self.preparation = self.preparation.settle(settings)
        return settings

    def list_candidates(
        self, space: Mapping[str, Any], protocol: Protocol, seed: Callable[[str], int]
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The settings that a search tries, and the default of every parameter."""
        defaults = build_estimator(self.factory, self.parameters, seed=0).get_params()
        defaults |= {TRANSFORM: NO_TRANSFORM} if self._chooses_transform else {}
        return list_candidates(space, defaults, protocol.n_candidates, seed("candidates")), defaults

    def fit(self, settings: Mapping[str, Any], graphs: NDArray[Any], labels: NDArray[Any], **inner: Any) -> Any:
        """The estimator with these settings, fitted to prepared graphs."""
        own = {name: value for name, value in settings.items() if name != TRANSFORM or not self._chooses_transform}
        estimator = build_estimator(self.factory, {**self.parameters, **own, **inner}, self.seed)
        extra = {"X_unlabeled": self.preparation.apply(self.samples, self.extra)} if len(self.extra) else {}
        return estimator.fit(graphs, labels, **extra)


def tune(
    candidates: Sequence[Mapping[str, Any]],
    folds: Folds,
    fit: Fit,
    preparation: Preparation,
    samples: Samples,
    train: NDArray[np.int64],
    labels: NDArray[Any],
    search: str = "exhaustive",
    scores: InnerScores | None = None,
    left_out: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The candidate that a search chooses by ROC AUC in the inner folds of ``train``; the first is the default setting.

    ``fit(settings, graphs, labels)`` returns a fitted estimator. A candidate may name a choice of ``preparation``. One
    that raises ValueError (a kernel larger than the graph, Fisher's z of what are no correlations) or ArithmeticError
    (a training that diverges) is left out with a warning, and added to ``left_out`` with the reason; if all do, the
    first error is raised. A package that is not installed is always an error. Inner folds of one class are skipped;
    without any other the first candidate is taken. Fits whose scores are in ``scores`` are not repeated, and the scores
    of others are added.
    """
    folds = [(inside, outside) for inside, outside in folds if len(np.unique(labels[outside])) > 1]
    skipped = {} if left_out is None else left_out
    if not folds:
        _leave_out(_ANY_SETTING, "every inner fold holds out one class", skipped)
        return dict(candidates[0])
    reasons: list[Exception] = []
    n_fits, n_most = 0, count_fits(search, len(candidates), len(folds))
    classes = np.unique(labels)
    chosen = [settings.get(TRANSFORM, NO_TRANSFORM) for settings in candidates]
    kept = InnerScores() if scores is None else scores

    @contextmanager
    def trying(settings: Mapping[str, Any]) -> Iterator[None]:
        try:
            yield
        except MissingPackageError:
            raise
        except (ValueError, ArithmeticError) as error:
            reasons.append(error)
            what = ", ".join(f"{name}={value}" for name, value in settings.items()) or "the defaults"
            _leave_out(what, describe_failure(error)["reason"].removeprefix("InputError: "), skipped)

    def score(column: int, rows: list[int]) -> list[float]:
        nonlocal n_fits
        inside, outside = folds[column]
        fold = name_fold(train[inside], train[outside])
        found = {row: kept.find(candidates[row], fold) for row in rows}
        areas = {row: np.nan if area is None else area for row, area in found.items()}
        missing = [row for row in rows if found[row] is None]
        if not missing:
            return list(areas.values())
        prepared = preparation.fit(samples, train[inside], labels[inside]), preparation.apply(samples, train[outside])
        truth = np.searchsorted(classes, labels[outside])
        for name in dict.fromkeys(chosen[row] for row in missing):
            transformed = None
            with trying({TRANSFORM: name}):
                graphs = preparation.choose(name, prepared[0], labels[inside])
                transformed = graphs, preparation.apply_choice(prepared[1])
            if transformed is None:
                continue
            for row in (row for row in missing if chosen[row] == name):
                n_fits += 1
                enter_stage("search", n_fits, n_most)
                began = time.perf_counter()
                with trying(candidates[row]):
                    estimator = fit(candidates[row], transformed[0], labels[inside])
                    areas[row] = roc_auc(truth, predict_probabilities(estimator, transformed[1], classes))
                    kept.add(candidates[row], fold, areas[row], time.perf_counter() - began)
                    del estimator  # its weights would be in memory beside those of the next fit
        return list(areas.values())

    try:
        best, _ = race(SEARCHES[search], len(candidates), [len(outside) for _, outside in folds], score)
    finally:
        kept.write()
    if best is None:
        raise reasons[0]
    return dict(candidates[best])


def _leave_out(what: str, reason: str, left_out: dict[str, str]) -> None:
    """Note what a search cannot try, in a line each and not without end; the first reason counts."""
    what, reason = (cut(" ".join(text.split()), _LONGEST_OMISSION) for text in (what, reason))
    if what not in left_out:
        if len(left_out) >= _MOST_OMISSIONS:
            what = "further settings"
        left_out.setdefault(what, reason)
        warnings.warn(f"The search could not try {what}: {reason}", stacklevel=4)


def as_tuples(value: Any) -> Any:
    """Sequences as tuples: JSON has only lists, and estimators declare tuples."""
    return tuple(as_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def as_plain(value: Any) -> Any:
    """Arrays as lists, and numbers of NumPy as numbers of Python."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if type(value) in (list, tuple):
        return type(value)(as_plain(item) for item in value)
    return {key: as_plain(item) for key, item in value.items()} if type(value) is dict else value
