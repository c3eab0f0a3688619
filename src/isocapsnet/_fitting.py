"""One model from Python: :func:`fit`, :func:`predict` and :func:`transform`; :func:`check_data` before either."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from isocapsnet._methods import list_one_method
from isocapsnet._planning import adjacency_of, as_source, check_keywords, open_data
from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import Layout, layout_of
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import examine_graphs
from isocapsnet.datasets.reading import Findings, ReadOptions
from isocapsnet.evaluation.estimation import build_estimator

if TYPE_CHECKING:
    from isocapsnet.models._base import GraphClassifier


def fit(
    data: Any,
    method: Any = "isocapsnet",
    *,
    out: str | Path | None = None,
    seed: int = 0,
    device: str | None = None,
    use_unlabeled: bool = False,
    **reading: Any,
) -> "GraphClassifier":
    """Fit one method to all labelled graphs.

    Parameters
    ----------
    data, **reading
        See :func:`isocapsnet.benchmark`.
    method : str, class or estimator
        A method of :func:`isocapsnet.benchmark`.
    out : path, optional
        Save the model to this file; :func:`isocapsnet.load_model` reads it.
    seed : int
        Seed of the fit, unless the method has a ``random_state``.
    device : str, optional
        cpu, cuda, ... for a method that has a device.
    use_unlabeled : bool
        Let unlabelled graphs take part in training.

    Returns
    -------
    estimator : fitted estimator

    Examples
    --------
    >>> import isocapsnet
    >>> model = isocapsnet.fit("planted", "linear", out="model.safetensors")    # doctest: +SKIP
    """
    from isocapsnet.models import MODELS

    spec = list_one_method(method, device=device, use_unlabeled=use_unlabeled)
    graphs = open_data(data, reading)
    X, is_labelled = adjacency_of(graphs), graphs.is_labelled
    name = graphs.name or "the data"
    if use_unlabeled and not spec.use_unlabeled:
        raise InputError(f"{spec.name} cannot use unlabelled graphs; leave out use_unlabeled=True.")
    if use_unlabeled and is_labelled.all():
        raise InputError(f"Every graph of {name} has a label; leave out use_unlabeled=True.")
    if not is_labelled.any():
        raise InputError(f"No graph of {name} has a label; name the column of classes with target=.")
    estimator = build_estimator(spec.factory, {**spec.parameters, **spec.runtime}, seed)
    if out is not None and type(estimator) not in MODELS.values():
        raise InputError(f"{spec.name} cannot be saved, only the methods in isocapsnet.MODELS; do not give out=.")
    extra = {"X_unlabeled": X[~is_labelled]} if spec.use_unlabeled else {}
    labelled = X if is_labelled.all() else X[is_labelled]  # all of a memory map stay one
    estimator.fit(labelled, np.array(graphs.label_names)[graphs.labels[is_labelled]], **extra)
    layout = layout_of(graphs)
    estimator.n_nodes_in_, estimator.node_names_in_ = layout.n_nodes, layout.node_names
    estimator.directed_in_ = layout.directed
    if out is not None:
        from isocapsnet.models._persistence import save_model

        save_model(estimator, out)
    fitted: GraphClassifier = estimator
    return fitted


def predict(model: Any, data: Any, **reading: Any) -> pd.DataFrame:
    """Predict the class of every graph.

    Parameters
    ----------
    model : fitted estimator or path
        An estimator, or the file of a saved one.
    data, **reading
        See :func:`isocapsnet.benchmark`. Nodes are put into the order of the model by their names.

    Returns
    -------
    table : DataFrame
        One row per graph: ``subject``, ``prediction`` and ``p_<class>``, the probability of each class.

    Examples
    --------
    >>> import isocapsnet
    >>> isocapsnet.predict("model.safetensors", "study.npz")    # doctest: +SKIP
    """
    estimator, graphs = open_for_model(model, data, reading)
    probabilities = estimator.predict_proba(adjacency_of(graphs))
    return pd.DataFrame(
        {"subject": graphs.subjects, "prediction": estimator.classes_[probabilities.argmax(axis=1)]}
    ).join(pd.DataFrame(probabilities, columns=[f"p_{name}" for name in estimator.classes_]))


def transform(model: Any, data: Any, **reading: Any) -> pd.DataFrame:
    """The representation that a model has of every graph.

    Parameters
    ----------
    model, data, **reading
        See :func:`predict`.

    Returns
    -------
    table : DataFrame
        One row per graph: ``subject``, ``feature_1``, ``feature_2``, ...

    Examples
    --------
    >>> import isocapsnet
    >>> isocapsnet.transform("model.safetensors", "study.npz")    # doctest: +SKIP
    """
    estimator, graphs = open_for_model(model, data, reading)
    if not hasattr(estimator, "transform"):
        raise InputError(f"{type(estimator).__name__} learns no representation; use predict.")
    features = np.asarray(estimator.transform(adjacency_of(graphs))).reshape(len(graphs), -1)
    table = pd.DataFrame(features, columns=[f"feature_{number}" for number in range(1, features.shape[1] + 1)])
    table.insert(0, "subject", graphs.subjects)
    return table


def check_data(data: Any, **reading: Any) -> Findings:
    """List all problems of a dataset at once: what is refused, what was corrected, and what is unusual.

    Parameters
    ----------
    data
        See :func:`isocapsnet.benchmark`.
    **reading
        The keywords of :func:`isocapsnet.load_graphs`.

    Returns
    -------
    findings : Findings
        ``errors`` (the data cannot be used), ``warnings``, ``handled`` and ``exclusions``.

    Examples
    --------
    >>> import isocapsnet
    >>> isocapsnet.check_data("study/", target="diagnosis").errors    # doctest: +SKIP
    []
    """
    check_keywords(reading)
    try:
        source = as_source(data)
    except InputError as error:  # of arrays
        return Findings(errors=[str(error)])
    return examine_graphs(source, ReadOptions(**reading))[1]


def open_for_model(model: Any, data: Any, reading: dict[str, Any]) -> tuple[Any, BrainGraphs]:
    """A fitted estimator, and data with their nodes in its order."""
    from isocapsnet.models._persistence import load_model

    estimator = load_model(model) if isinstance(model, str | Path) else model
    check_is_fitted(estimator)
    if not hasattr(estimator, "n_nodes_in_"):  # a user's own, which was not fitted by `fit`
        return estimator, open_data(data, reading)
    like = Layout(
        estimator.n_nodes_in_,
        getattr(estimator, "node_names_in_", None),
        getattr(estimator, "directed_in_", None),
    )
    return estimator, open_data(data, {**reading, "like": like})
