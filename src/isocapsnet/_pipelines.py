"""Models with the preparation that their graphs need, in memory and in one file."""

import os
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._methods import make_step
from isocapsnet._safe_text import list_some
from isocapsnet._state import check_names
from isocapsnet._validation import InputError, check_option
from isocapsnet.datasets.atlas import Layout, layout_of, match_nodes
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.resemblance import check_resemblance, check_summary, summarize_graphs
from isocapsnet.evaluation.preparation import Preparation, Step, metadata_for
from isocapsnet.evaluation.samples import Samples

if TYPE_CHECKING:  # torch is imported when a model is saved or read
    from isocapsnet.models._base import GraphClassifier

#: The step that makes graphs of time series. It is the first.
CONNECTIVITY = "connectivity"
#: The step that removes differences between sites.
HARMONIZE = "harmonize"
_UNSEEN, _MISSING = ("keep", "refuse"), ("average", "refuse")
_NO_GRAPHS = "The model was fitted to graphs, and the data are time series; make graphs of them as for training."


class PreparedModel:
    """A fitted preparation, and the model that was fitted to the graphs that it makes.

    :func:`isocapsnet.fit` returns one if it is given options of preparation or time series, and
    :func:`isocapsnet.load_model` reads one. :func:`isocapsnet.predict` and the methods below take data as they were
    before any preparation.

    Parameters
    ----------
    preparation : Preparation
        Fitted to the training subjects.
    model : GraphClassifier
        Fitted to their prepared graphs; it takes prepared graphs only.
    """

    def __init__(self, preparation: Preparation, model: "GraphClassifier") -> None:
        self.preparation, self.model = preparation, model
        preparation.training = None  # a model does not keep its data in memory

    def __repr__(self) -> str:
        return f"PreparedModel({' -> '.join([*(step.name for step in self.steps), type(self.model).__name__])})"

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the preparation."""
        return self.preparation.steps

    @property
    def needs_series(self) -> bool:
        """Whether graphs are made of time series."""
        return bool(self.steps) and self.steps[0].name == CONNECTIVITY

    @property
    def columns(self) -> list[str]:
        """The covariates that the preparation needs."""
        return list(dict.fromkeys(column for step in self.steps for column in step.columns))

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the probabilities."""
        return self.model.classes_

    def __getattr__(self, name: str) -> Any:
        """What :func:`isocapsnet.fit` notes about the training data: ``n_nodes_in_``, ``card_`` and others."""
        if name in ("n_nodes_in_", "node_names_in_", "directed_in_", "input_range_", "card_"):
            return getattr(self.model, name)
        raise AttributeError(f"PreparedModel has no attribute {name!r}; the model itself is its attribute model.")

    def prepare(
        self, data: Any, *, unseen_sites: str | None = None, missing_covariates: str = "refuse", **fields: Any
    ) -> NDArray[Any]:
        """Prepared graphs ``(n_graphs, n_nodes, n_nodes)``.

        Parameters
        ----------
        data : BrainGraphs, array (n_graphs, n_nodes, n_nodes), or list of time series (n_timepoints, n_nodes)
        unseen_sites : {"keep", "refuse"}, optional
            Graphs from a site that the model was not fitted to are refused or, with "keep", not harmonised. The default
            is what the transform said when the model was fitted (``harmonize[unseen=keep]``), or else "refuse".
        missing_covariates : {"refuse", "average"}
            Whether a subject without a covariate is refused, or has the average of the training subjects.
        **fields
            ``sites`` and ``covariates`` of arrays; see :class:`isocapsnet.BrainGraphs`.
        """
        check_option("unseen_sites", unseen_sites, (None, *_UNSEEN))
        check_option("missing_covariates", missing_covariates, _MISSING)
        self._check_policies(unseen_sites, missing_covariates)
        if not isinstance(data, BrainGraphs):
            source = {"time_series": data} if self.needs_series else {"adjacency": data}
            data = BrainGraphs(**source, **fields)
        data = match_nodes(data, None, layout_for(self))
        self._check_data(data)
        samples = Samples(data, use_series=self.needs_series)
        everyone, subjects = np.arange(len(samples)), data.identifiers.tolist()
        preparation = copy(self.preparation)
        preparation.fitted = []
        for step, transformer in self.preparation.fitted:
            check = getattr(transformer, "check_subjects", None)
            stated = step.parameters.get("unseen", "refuse")
            policy = (unseen_sites or stated) if step.name == HARMONIZE else missing_covariates
            if check is not None and policy == "refuse":
                check(subjects, **metadata_for(check, step, samples, everyone))
            if step.name == HARMONIZE:  # what is asked for here is stronger than what was stated at the fit
                transformer = copy(transformer).set_params(unseen=policy)
            preparation.fitted.append((step, transformer))
        return preparation.apply(samples, everyone)

    def _check_policies(self, unseen_sites: str | None, missing_covariates: str) -> None:
        """Refuse a policy for something that the preparation does not do."""
        if unseen_sites is not None and not any(step.name == HARMONIZE for step in self.steps):
            raise InputError("unseen_sites= does not apply: the model does not harmonise sites; leave it out.")
        if missing_covariates != "refuse" and not self.columns:
            raise InputError("missing_covariates= does not apply: the model uses no covariates; leave it out.")

    def _check_data(self, data: BrainGraphs) -> None:
        """Refuse data that lack what the preparation needs."""
        if self.needs_series and data.time_series is None:
            raise InputError("The model makes its graphs from time series, and the data are graphs; give time series.")
        if not self.needs_series and data.adjacency is None:
            raise InputError(_NO_GRAPHS)
        if not self.needs_series:
            check_range(self, data)
        if data.sites is None and any("sites_" in vars(transformer) for _, transformer in self.preparation.fitted):
            raise InputError("The model harmonises sites, and the data have none; name their column with site=.")
        columns = [] if data.covariates is None else list(data.covariates)
        if missing := [column for column in self.columns if column not in columns]:
            raise InputError(
                f"The model regresses out {', '.join(self.columns)}, and the data have no covariate {missing[0]!r}; "
                f"name the column with covariates= (the data have {list_some(columns) or 'none'})."
            )

    def predict_proba(self, data: Any, **options: Any) -> NDArray[np.float64]:
        """Class probabilities ``(n_graphs, n_classes)``; ``data`` and ``options`` as in :meth:`prepare`."""
        return self.model.predict_proba(self.prepare(data, **options))

    def predict(self, data: Any, **options: Any) -> NDArray[Any]:
        """The most probable class of each graph ``(n_graphs,)``; ``data`` and ``options`` as in :meth:`prepare`."""
        return self.classes_[self.predict_proba(data, **options).argmax(axis=1)]


def check_range(model: Any, data: BrainGraphs) -> None:
    """Refuse time series, and graphs of another kind than those that the model was fitted to, if the model knows."""
    training = getattr(model, "input_range_", None)
    if training is None:
        return
    if data.adjacency is None:
        raise InputError(_NO_GRAPHS)
    check_resemblance(data.adjacency, data.identifiers.tolist(), training)


def note_training(estimator: Any, samples: Samples, indices: NDArray[np.int64]) -> None:
    """Let an estimator know the nodes of its training data and the range of their values, before any preparation."""
    layout = layout_of(samples.data)
    estimator.n_nodes_in_, estimator.node_names_in_ = layout.n_nodes, layout.node_names
    estimator.directed_in_ = layout.directed
    if not samples.is_time_series:
        estimator.input_range_ = summarize_graphs(samples.X, indices)


def layout_for(model: Any) -> Layout | None:
    """The nodes that a model needs; None if it does not say."""
    if not hasattr(model, "n_nodes_in_"):
        return None
    return Layout(model.n_nodes_in_, getattr(model, "node_names_in_", None), getattr(model, "directed_in_", None))


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    decoder: bool = True,
    precision: str = "full",
    graphs: ArrayLike | BrainGraphs | None = None,
) -> Path:
    """Write a fitted model, with its preparation, to one file. An existing file is replaced atomically.

    The file is safetensors with JSON in its header, never a pickle: the preparation (tangent reference, scale and shift
    of each site, coefficients of covariates, ...), the model, its card and a digest of all of these.

    Parameters
    ----------
    model : GraphClassifier or PreparedModel
        Fitted. Of methods, those in ``isocapsnet.MODELS`` can be saved.
    path : path
        The file.
    decoder : bool
        False leaves out the decoder of a capsule network. Predictions stay as they are; ``reconstruct`` is lost.
    precision : {"full", "half"}
        "half" stores weights in half precision. It is refused if a probability of ``graphs`` changes in three digits.
    graphs : array (n_graphs, n_nodes, n_nodes) or BrainGraphs, optional
        For ``precision="half"``: such as the training data, before their preparation.

    Returns
    -------
    path : Path
        The file.

    Examples
    --------
    >>> import isocapsnet
    >>> model = isocapsnet.fit("planted", "isocapsnet")
    >>> isocapsnet.save_model(model, "small.safetensors", decoder=False)
    """
    if graphs is not None and isinstance(model, PreparedModel):
        graphs = model.prepare(graphs)
    return write_model(model, path, decoder=decoder, precision=precision, graphs=graphs)


def write_model(model: Any, path: str | os.PathLike[str], *, decoder: bool, precision: str, graphs: Any | None) -> Path:
    """:func:`save_model` with graphs that are prepared."""
    from isocapsnet.models import _persistence

    estimator, preparation = model, None
    if isinstance(model, PreparedModel):
        values, arrays = model.preparation.get_state()
        identities = [{**step.identity(), "columns": list(step.columns)} for step in model.steps]
        preparation = ({"steps": identities, "values": values}, arrays)
        estimator = model.model
    graphs = graphs.adjacency if isinstance(graphs, BrainGraphs) else graphs
    return _persistence.save_model(
        estimator, path, decoder=decoder, precision=precision, graphs=graphs, preparation=preparation
    )


def save_fold_model(estimator: Any, path: Path, preparation: Preparation) -> Path:
    """Write the model of one fold of a benchmark with the preparation that was fitted there.

    As after :func:`isocapsnet.fit`, it knows its nodes and the names of its classes, which a benchmark numbers.
    """
    assert preparation.training is not None
    samples, train = preparation.training
    estimator = copy(estimator)
    note_training(estimator, samples, train)
    names = np.array(samples.data.label_names)[estimator.classes_]
    if np.array_equal(np.unique(names), names):  # else the columns of probabilities would have another order
        estimator.classes_ = names
    model = PreparedModel(preparation, estimator) if preparation.steps else estimator
    return save_model(model, path)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model that :func:`save_model` wrote. Its predictions equal those of the saved one, bit for bit.

    The file is not trusted. Names, parameters, types, shapes and numbers are checked before a model is built from them.
    Anything else raises InputError.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    model : GraphClassifier or PreparedModel
        A :class:`PreparedModel` if the file has a preparation.
    """
    from isocapsnet.models import _persistence

    return _persistence.load_model(path, _complete)


def _complete(
    estimator: "GraphClassifier", values: Any, arrays: Mapping[str, NDArray[Any]]
) -> "GraphClassifier | PreparedModel":
    """The model of a file; the values and arrays of its preparation are checked."""
    if estimator.input_range_ is not None:
        check_summary(estimator.input_range_)
    if values is None:
        if arrays:
            raise InputError(f"it has an unexpected array {min(arrays)!r:.60}")
        return estimator
    steps = [
        make_step(step["name"], step["parameters"], tuple(check_names("columns", step["columns"])))
        for step in values["steps"]
    ]
    if any(step.name == CONNECTIVITY for step in steps[1:]):
        raise InputError(f"its step {CONNECTIVITY} is not the first")
    if any((step.name == "confounds") != bool(step.columns) for step in steps):
        raise InputError("its steps do not have the columns that they need")
    preparation = Preparation(steps)
    preparation.set_state(values["values"], arrays, estimator.n_nodes_in_)
    for step, transformer in preparation.fitted:
        encoder = getattr(transformer, "encoder_", None)
        if encoder is not None and tuple(encoder.columns_) != step.columns:
            raise InputError(f"its step {step.name} has coded other columns than its own")
    return PreparedModel(preparation, estimator)
