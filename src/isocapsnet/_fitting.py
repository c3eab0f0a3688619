"""One model from Python: :func:`fit`, :func:`predict` and :func:`transform`; :func:`check_data` before either."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from isocapsnet._methods import list_one_method, list_steps
from isocapsnet._model_cards import make_card
from isocapsnet._pipelines import PreparedModel, check_range, layout_for, load_model, note_training, write_model
from isocapsnet._planning import adjacency_of, check_keywords, check_steps, open_with_covariates, uses_series
from isocapsnet._progress import show_stages
from isocapsnet._refitting import Pipeline, plan_refit
from isocapsnet._stages import enter_stage
from isocapsnet._validation import InputError, check_option, check_target
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import examine_graphs
from isocapsnet.datasets.reading import ReadOptions, as_names
from isocapsnet.evaluation.estimation import Fitter, build_estimator
from isocapsnet.evaluation.naming import seed_from
from isocapsnet.evaluation.preparation import Preparation
from isocapsnet.evaluation.protocol import Protocol
from isocapsnet.evaluation.samples import Samples


def fit(
    data: Any = None,
    method: Any = "isocapsnet",
    *,
    out: str | Path | None = None,
    like: str | Path | None = None,
    connectivity: str | None = None,
    transform: str | Sequence[str] = (),
    harmonize: bool = False,
    confounds: str | Sequence[str] = (),
    decoder: bool = True,
    precision: str = "full",
    seed: int = 0,
    device: str | None = None,
    use_unlabeled: bool = False,
    progress: bool = True,
    **reading: Any,
) -> Any:
    """Fit a preparation and one method to all labelled graphs, and save both in one file.

    Parameters
    ----------
    data : BrainGraphs, path, str or tuple (X, y), optional
        See :func:`isocapsnet.benchmark`. With ``like`` the data may be left out.
    method : str, class or estimator
        A method of :func:`isocapsnet.benchmark`.
    out : path, optional
        Save the model to this file; :func:`isocapsnet.load_model` reads it.
    like : path, optional
        The folder of a benchmark. The pipeline of ``method`` there is fitted to all of its data: the same preparation,
        parameters and search. The model card says which performance to expect.
    connectivity, transform, harmonize, confounds : optional
        The preparation, as in :func:`isocapsnet.benchmark`. It is fitted to the labelled graphs and saved with the
        model.
    decoder, precision : bool, {"full", "half"}
        The size of the file; see :func:`isocapsnet.save_model`. Predictions are compared on the training graphs.
    seed : int
        Seed of the fit, unless the method has a ``random_state``.
    device : str, optional
        The device of a method that has one: cpu, cuda, ...
    use_unlabeled : bool
        Let unlabelled graphs take part in training.
    progress : bool
        Show the search and the epochs in a terminal or notebook.
    **reading
        How to read a path; see :func:`isocapsnet.load_graphs`.

    Returns
    -------
    model : fitted estimator or PreparedModel
        An estimator if the graphs are used as they are, else a :class:`isocapsnet.PreparedModel`.

    Examples
    --------
    >>> import isocapsnet
    >>> model = isocapsnet.fit("planted", "linear", out="model.safetensors")
    >>> isocapsnet.fit("study/", "linear", target="diagnosis", site="centre", harmonize=True,
    ...                confounds=["age", "sex"], transform="fisher-z", out="model.safetensors")
    >>> isocapsnet.fit(like="results", method="linear", out="model.safetensors")
    """
    check_option("precision", precision, ("full", "half"))
    preparation: dict[str, Any] = {"connectivity": connectivity, "transform": transform}
    preparation |= {"harmonize": harmonize, "confounds": confounds}
    if like is not None:
        if given := [name for name, value in preparation.items() if value] + ["use_unlabeled"] * use_unlabeled:
            raise InputError(f"like= has a preparation of its own; leave out {given[0]}=.")
        pipeline = plan_refit(like, method, data, reading, device=device)
    else:
        if data is None:
            raise InputError("There are no data to fit to; give data, or the results of a benchmark with like=.")
        spec = list_one_method(method, device=device, use_unlabeled=use_unlabeled)
        columns = as_names(confounds or ())
        graphs = open_with_covariates(data, columns, reading)
        use_series = uses_series(graphs, connectivity)
        steps = list_steps(**{**preparation, "confounds": columns, "has_series": use_series})
        samples = Samples(graphs, use_series=use_series)
        check_steps(samples, steps)
        pipeline = Pipeline(spec, steps, samples)
    _check_fit(pipeline, use_unlabeled=use_unlabeled)
    if out is not None:
        _check_out(pipeline, Path(out), decoder=decoder)
    with show_stages(f"Fitting {pipeline.spec.label}", quiet=not progress):
        model, prepared = _fit_pipeline(pipeline, seed, is_saved=out is not None)
    if out is not None:
        write_model(model, out, decoder=decoder, precision=precision, graphs=prepared)
    return model


def _check_fit(pipeline: Pipeline, *, use_unlabeled: bool) -> None:
    """Refuse what cannot be fitted, before any work is done."""
    spec, samples = pipeline.spec, pipeline.samples
    name = samples.data.name or "the data"
    if use_unlabeled and not spec.use_unlabeled:
        raise InputError(f"{spec.name} cannot use unlabelled graphs; leave out use_unlabeled=True.")
    if use_unlabeled and not len(samples.unlabelled):
        raise InputError(f"Every graph of {name} has a label; leave out use_unlabeled=True.")
    if not len(samples.labelled):
        raise InputError(f"No graph of {name} has a label; name the column of classes with target=.")


def _check_out(pipeline: Pipeline, out: Path, *, decoder: bool) -> None:
    """Refuse what cannot be saved, before any work is done."""
    from isocapsnet.models import MODELS
    from isocapsnet.models._sizes import check_decoder

    spec = pipeline.spec
    estimator = build_estimator(spec.factory, {**spec.parameters, **spec.runtime}, 0)
    if type(estimator) not in MODELS.values():
        raise InputError(f"{spec.name} cannot be saved, because it is not in isocapsnet.MODELS; leave out out=.")
    if not decoder:
        check_decoder(estimator)
    check_target("The model", out)


def _fit_pipeline(pipeline: Pipeline, seed: int, *, is_saved: bool) -> tuple[Any, NDArray[Any]]:
    """The model, fitted to all labelled graphs with the search of the pipeline, and its prepared training graphs."""
    spec, samples = pipeline.spec, pipeline.samples
    train = samples.labelled
    codes, extra = samples.labels[train], samples.unlabelled if spec.use_unlabeled else np.arange(0)
    preparation = Preparation(pipeline.steps, choices=pipeline.transforms)
    fitter = Fitter(spec.factory, {**spec.parameters, **spec.runtime}, preparation, samples, extra, seed)
    protocol = pipeline.protocol or Protocol(inner_folds=0)
    settings = fitter.search(
        spec.space if protocol.is_tuned else {},
        protocol,
        train,
        codes,
        None if samples.groups is None else samples.groups[train],
        lambda purpose: seed_from(purpose, samples.digest, spec.name, seed),
    )
    enter_stage("fit")
    preparation = fitter.preparation
    prepared = preparation.fit(samples, train, codes)
    if is_saved:
        preparation.get_state()  # refused before the training if a step does not say what it has learned
    estimator = fitter.fit(settings, prepared, np.array(samples.data.label_names)[codes])
    note_training(estimator, samples, np.concatenate([train, extra]))
    estimator.card_ = make_card(estimator, replace(pipeline, steps=preparation.steps), settings)
    return (PreparedModel(preparation, estimator) if preparation.steps else estimator), prepared


def predict(
    model: Any,
    data: Any,
    *,
    unseen_sites: str | None = None,
    missing_covariates: str = "refuse",
    **reading: Any,
) -> pd.DataFrame:
    """Predict the class of every graph.

    Subjects that the model cannot prepare are refused: another number of nodes, matrices of another kind, a site that
    it was not fitted to, a covariate that is missing.

    Parameters
    ----------
    model : fitted estimator, PreparedModel or path
        A model, or the file of a saved one.
    data : BrainGraphs, path, str or tuple (X, y)
        See :func:`isocapsnet.benchmark`. Nodes are put into the order of the model by their names. A model with a
        preparation takes data as they were before it, with sites and covariates if it needs them.
    unseen_sites : {"keep", "refuse"}, optional
        Whether subjects from a site that the model was not fitted to are refused, or their graphs are not harmonised.
        The default is what the model was fitted with (``harmonize[unseen=keep]``), or else "refuse".
    missing_covariates : {"refuse", "average"}
        Whether a subject without a covariate is refused, or has the average of the training subjects.
    **reading
        How to read a path; see :func:`isocapsnet.load_graphs`.

    Returns
    -------
    table : DataFrame
        One row per graph: ``subject``, ``prediction`` and ``p_<class>``, the probability of each class.

    Examples
    --------
    >>> import isocapsnet
    >>> isocapsnet.predict("model.safetensors", "study.npz")
    """
    estimator, graphs = open_for_model(model, data, reading)
    classifier, prepared = prepare_for(estimator, graphs, unseen_sites, missing_covariates)
    probabilities = classifier.predict_proba(prepared)
    return pd.DataFrame(
        {"subject": graphs.identifiers, "prediction": classifier.classes_[probabilities.argmax(axis=1)]}
    ).join(pd.DataFrame(probabilities, columns=[f"p_{name}" for name in classifier.classes_]))


def transform(
    model: Any,
    data: Any,
    *,
    unseen_sites: str | None = None,
    missing_covariates: str = "refuse",
    **reading: Any,
) -> pd.DataFrame:
    """The representation that a model has of every graph.

    Parameters
    ----------
    model, data, unseen_sites, missing_covariates, **reading : optional
        See :func:`predict`.

    Returns
    -------
    table : DataFrame
        One row per graph: ``subject``, ``feature_1``, ``feature_2``, ...

    Examples
    --------
    >>> import isocapsnet
    >>> isocapsnet.transform("model.safetensors", "study.npz")
    """
    estimator, graphs = open_for_model(model, data, reading)
    classifier, prepared = prepare_for(estimator, graphs, unseen_sites, missing_covariates)
    if not hasattr(classifier, "transform"):
        raise InputError(f"{type(classifier).__name__} learns no representation; use predict.")
    features = np.asarray(classifier.transform(prepared)).reshape(len(graphs), -1)
    table = pd.DataFrame(features, columns=[f"feature_{number}" for number in range(1, features.shape[1] + 1)])
    table.insert(0, "subject", graphs.identifiers)
    return table


def check_data(data: Any, **reading: Any) -> Findings:
    """List all problems of a dataset at once: what is refused, what was corrected, and what is unusual.

    Parameters
    ----------
    data : BrainGraphs, path, str or tuple (X, y)
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
    >>> isocapsnet.check_data("study/", target="diagnosis").errors
    []
    """
    check_keywords(reading)
    return examine_graphs(data, ReadOptions(**reading))[1]


def open_for_model(model: Any, data: Any, reading: dict[str, Any]) -> tuple[Any, BrainGraphs]:
    """A fitted model, and data with their nodes in its order and the covariates that it needs."""
    opened = load_model(model) if isinstance(model, str | Path) else model
    if not isinstance(opened, PreparedModel):
        check_is_fitted(opened)
    columns = opened.columns if isinstance(opened, PreparedModel) else []
    layout = layout_for(opened)  # None for a user's own, which was not fitted by `fit`
    return opened, open_with_covariates(data, columns, reading if layout is None else {**reading, "like": layout})


def prepare_for(
    model: Any, graphs: BrainGraphs, unseen_sites: str | None, missing_covariates: str
) -> tuple[Any, NDArray[Any]]:
    """The classifier of a model, and the graphs as it takes them."""
    if isinstance(model, PreparedModel):
        return model.model, model.prepare(graphs, unseen_sites=unseen_sites, missing_covariates=missing_covariates)
    if unseen_sites is not None or missing_covariates != "refuse":
        name = "missing_covariates" if unseen_sites is None else "unseen_sites"
        raise InputError(f"{name}= does not apply: the model has no preparation; leave it out.")
    check_range(model, graphs)
    return model, adjacency_of(graphs)
