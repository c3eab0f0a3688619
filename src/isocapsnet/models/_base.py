"""The base class of every method in ``MODELS``."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from isocapsnet._state import Stateful
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError, check_graphs, check_labels, check_option, iter_chunks
from isocapsnet.models._parameters import check_fields


class GraphClassifier(Stateful, ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier of brain graphs ``(n_graphs, n_nodes, n_nodes)``.

    A method implements ``_fit(X, codes)`` and ``_predict_proba(X)`` on checked input, where ``codes`` are class indices
    into ``classes_``. ``_get_state`` and ``_set_state`` convert the fitted state to JSON values and numpy arrays and
    back; models are never pickled.
    """

    #: Increased when a fix changes the results of a method, so that older benchmark records are not reused.
    version: ClassVar[int] = 1

    #: Modules that the method needs, with the extras that install them: ``{"pyriemann": "methods"}``.
    packages: ClassVar[Mapping[str, str]] = {}

    #: Sets of parameters by the name that the parameter ``preset`` gives them, for a class that has this parameter.
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    classes_: NDArray[Any]
    n_nodes_in_: int
    #: Names of the nodes and whether edges are directed, in the training graphs; None if not given.
    node_names_in_: Sequence[str] | None = None
    directed_in_: bool | None = None
    #: The range of values in the training graphs, and the model card; None if the model was not fitted by ``fit``.
    input_range_: dict[str, Any] | None = None
    card_: dict[str, Any] | None = None
    #: Whether probabilities were calibrated on graphs held out of the training; None if not known (older files).
    is_calibrated_: bool | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to graphs ``X`` ``(n_graphs, n_nodes, n_nodes)`` and labels ``y`` ``(n_graphs,)``."""
        return self._fit_checked(*self._check_training(X, y))

    @one_thread()
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities ``(n_graphs, n_classes)``, columns in the order of ``classes_``."""
        proba = self._predict_proba(self._check_fitted(X))
        if not np.isfinite(proba).all():
            graph = int(np.argmin(np.isfinite(proba).all(axis=1)))
            raise InputError(
                f"{type(self).__name__} cannot compute probabilities of graph {graph}: the edges of the graph or the "
                "weights of the model are too large."
            )
        return proba

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each graph ``(n_graphs,)``."""
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    @property
    def results_version(self) -> int:
        """The version of the results that these parameters give: :attr:`version`, unless a fix changed only some."""
        return self.version

    def _predicts_otherwise(self, results_version: int) -> bool:
        """Whether a model file with this version of the results predicted other probabilities."""
        return False

    @classmethod
    def search_space(cls) -> dict[str, list[Any]]:
        """Candidate values of the parameters that nested tuning may change; empty if there are none."""
        return deepcopy(cls._search_space)

    @classmethod
    def preset_parameters(cls, preset: str | None) -> dict[str, Any]:
        """The parameters that a preset sets where they are not given; none for ``None``."""
        check_option("preset", preset, (None, *cls.PRESETS))
        return {} if preset is None else dict(cls.PRESETS[preset])

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters. A ``preset`` sets its own parameters too; those of the former preset get their defaults."""
        if "preset" in parameters and self.PRESETS:
            defaults = self._default_parameters()
            former = {name: defaults[name] for name in self.preset_parameters(getattr(self, "preset", None))}
            parameters = {**former, **self.preset_parameters(parameters["preset"]), **parameters}
        return super().set_params(**parameters)

    @classmethod
    def refuse_moved(cls, parameters: Mapping[str, Any]) -> None:
        """Raise InputError for a parameter of earlier versions, with the name of its replacement."""

    @classmethod
    def update_parameters(cls, parameters: dict[str, Any], version: int) -> dict[str, Any]:
        """Parameters of a model file that a given ``version`` of the method wrote, as this version takes them."""
        return parameters

    # -- what a method implements ---------------------------------------------------------------------------

    #: Model files of versions before this one are loaded with a warning; None: all that are not of this version.
    _warned_before: ClassVar[int | None] = None
    _search_space: ClassVar[dict[str, list[Any]]] = {}
    _min_classes: ClassVar[int] = 2
    _max_classes: ClassVar[int | None] = None

    def _check_parameters(self, n_nodes: int) -> None:
        """Raise InputError for parameters that are not valid for graphs of ``n_nodes`` nodes."""
        if is_dataclass(self):
            check_fields(self)
        self.preset_parameters(getattr(self, "preset", None))

    def _without_effect(self) -> dict[str, str]:
        """Parameters that the values of other parameters leave without effect, each with the reason."""
        return {}

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        raise NotImplementedError

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        raise NotImplementedError

    # -- shared helpers -------------------------------------------------------------------------------------

    def _check_training(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        """Checked graphs, classes and codes. An earlier fit stays valid if the input is refused."""
        graphs = check_graphs(X, min_graphs=2)
        self._check_parameters(graphs.shape[1])
        classes, codes = check_labels(y, len(graphs), min_classes=self._min_classes)
        if self._max_classes is not None and len(classes) > self._max_classes:
            raise InputError(
                f"y holds {len(classes)} classes, but {type(self).__name__} takes at most {self._max_classes}."
            )
        for name, reason in self._without_effect().items():
            value = getattr(self, name)
            if repr(value) != repr(self._default_parameters()[name]):
                warn_user(f"{name}={value!r} has no effect: {reason}.")
        return graphs, classes, codes

    def _default_parameters(self) -> dict[str, Any]:
        """The default of each parameter, whatever the preset; only for a class with ``@estimator``."""
        return {parameter.name: parameter.default for parameter in fields(self)}

    @one_thread()
    def _fit_checked(
        self, X: NDArray[Any], classes: NDArray[Any], codes: NDArray[np.int64], *others: NDArray[Any] | None
    ) -> Self:
        self.classes_, self.n_nodes_in_ = classes, X.shape[1]
        self.is_calibrated_ = False  # a method that calibrates sets it
        try:
            self._fit(X, codes, *others)
        except BaseException:
            del self.n_nodes_in_  # an interrupted fit is no fit
            raise
        return self

    def _check_fitted(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self, "n_nodes_in_")
        return check_graphs(X, n_nodes=self.n_nodes_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.classifier_tags.multi_class = self._max_classes is None
        return tags


class RepresentationMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """A method with ``transform(X)`` ``(n_graphs, n_features)``, whose features have names, so that tables can be made.

    A method has ``_n_features_out``, the number of features of a fitted model.
    """

    _n_features_out: int


def warn_user(message: str) -> None:
    """Warn with the location of the first caller outside this package."""
    frame: FrameType | None = sys._getframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("isocapsnet", "contextlib"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def as_seed(random_state: Any) -> int:
    """A seed from ``None`` (a new one), a number or a generator. The global generator of numpy is not used."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    return int(random_state)


def class_weights(class_weight: Any, classes: NDArray[Any], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weight per class, by scikit-learn's rules: ``None``, ``"balanced"`` or a mapping from label to weight."""
    try:
        weights = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes[codes]), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"class_weight={class_weight!r} does not match the classes {classes.tolist()}; "
            'use None, "balanced" or a weight for each class.'
        ) from error
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise InputError(f"class_weight={class_weight!r} has a weight that is not a positive number.")
    return weights


def are_symmetric(X: NDArray[Any]) -> bool:
    """Whether every graph equals its transpose, up to rounding of the values' own precision."""
    for _, chunk in iter_chunks(X):
        scale = float(np.abs(chunk).max(initial=0.0))
        if not np.allclose(chunk, np.swapaxes(chunk, 1, 2), rtol=0, atol=1e-6 * scale):
            return False
    return True


def count_edges(n_nodes: int, *, directed: bool) -> int:
    """The number of rows of :func:`edge_ends`."""
    return n_nodes * (n_nodes - 1) // (1 if directed else 2) or 1


def edge_ends(n_nodes: int, *, directed: bool) -> NDArray[np.int64]:
    """Row and column of each edge ``(n_edges, 2)``: the upper triangle without the diagonal, or both triangles when
    ``directed``. A graph of one node has its single entry."""
    off_diagonal = ~np.eye(n_nodes, dtype=bool) if n_nodes > 1 else np.ones((1, 1), dtype=bool)
    return np.argwhere(off_diagonal if directed else np.triu(off_diagonal))


def edge_vectors(X: NDArray[Any], *, directed: bool = False) -> NDArray[np.float64]:
    """The edges of each graph as one row ``(n_graphs, n_edges)``, in the order of :func:`edge_ends`."""
    rows, columns = edge_ends(X.shape[1], directed=directed).T
    return np.asarray(X[:, rows, columns], dtype=np.float64)
