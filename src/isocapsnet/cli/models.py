"""``isocapsnet fit``, ``predict`` and ``transform``: one method, one model file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isocapsnet._safe_text import printable, spreadsheet_safe
from isocapsnet._validation import InputError
from isocapsnet.cli.data import open_graphs, reading_options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from isocapsnet.datasets.graphs import BrainGraphs
    from isocapsnet.models._base import GraphClassifier

_FILE = click.Path(dir_okay=False, path_type=Path)


def _in_a_folder(ctx: click.Context, parameter: click.Parameter, path: Path) -> Path:
    """Refuse a file that could not be written, before the work whose result it is to hold."""
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} for {path.name}; create it first.")
    return path


@click.command()
@click.argument("data")
@click.option("--method", default="isocapsnet", show_default=True, help="NAME or NAME[parameter=value,...].")
@click.option("--out", type=_FILE, required=True, callback=_in_a_folder, help="The model's file.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option("--device", help="cpu, cuda, ... for a method that has a device.")
@click.option("--use-unlabeled", is_flag=True, help="Let unlabelled graphs take part in training.")
@reading_options
def fit(data: str, method: str, out: Path, seed: int, device: str | None, use_unlabeled: bool, **reading: Any) -> None:
    """Fit one method to all labelled graphs of DATA and save the model.

    \b
    Examples
      isocapsnet fit study.npz --method linear --out model.safetensors
      isocapsnet fit study.npz --method "isocapsnet[kernel_size=3]" --out model.safetensors
    """
    import numpy as np

    from isocapsnet import save_model
    from isocapsnet.cli._methods import make_method, split_one_name
    from isocapsnet.datasets.atlas import layout_of
    from isocapsnet.evaluation.estimation import build_estimator

    chosen = make_method(*split_one_name(method), device=device, use_unlabeled=use_unlabeled)
    graphs = open_graphs(data, **reading)
    X, known = adjacency_of(graphs), graphs.is_labelled
    if use_unlabeled and not chosen.use_unlabeled:
        raise InputError(f"{chosen.name} cannot use unlabelled graphs; leave out --use-unlabeled.")
    if use_unlabeled and known.all():
        raise InputError(f"Every graph of {data} has a label; leave out --use-unlabeled.")
    if not known.any():
        raise InputError(f"No graph of {data} has a label; name the column of classes with --target.")
    estimator = build_estimator(chosen.factory, {**chosen.parameters, **chosen.runtime}, seed)
    extra = {"X_unlabeled": X[~known]} if chosen.use_unlabeled else {}
    estimator.fit(X[known], np.array(graphs.label_names)[graphs.labels[known]], **extra)
    layout = layout_of(graphs)
    estimator.node_names_in_, estimator.directed_in_ = layout.node_names, layout.directed
    save_model(estimator, out)
    click.echo(printable(f"{chosen.label} fitted to {known.sum()} graphs: {out}"))


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data")
@click.option(
    "--out",
    type=_FILE,
    required=True,
    callback=_in_a_folder,
    help="Table of subject, prediction, probability of each class.",
)
@reading_options
def predict(model: Path, data: str, out: Path, **reading: Any) -> None:
    """Predict the class of every graph of DATA with a saved MODEL.

    \b
    Example
      isocapsnet predict model.safetensors study.npz --out predictions.csv
    """
    import pandas as pd

    from isocapsnet import load_model

    estimator = load_model(model)
    graphs = open_for_model(estimator, data, reading)
    probabilities = estimator.predict_proba(adjacency_of(graphs))
    table = pd.DataFrame(
        {"subject": graphs.subjects, "prediction": estimator.classes_[probabilities.argmax(axis=1)]}
    ).join(pd.DataFrame(probabilities, columns=[f"p_{name}" for name in estimator.classes_]))
    spreadsheet_safe(table).to_csv(out, index=False)
    click.echo(printable(f"{len(table)} predictions: {out}"))


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data")
@click.option("--out", type=_FILE, required=True, callback=_in_a_folder, help="Table of subject and features.")
@reading_options
def transform(model: Path, data: str, out: Path, **reading: Any) -> None:
    """Write the representation that a saved MODEL has of every graph of DATA.

    \b
    Example
      isocapsnet transform model.safetensors study.npz --out features.csv
    """
    import pandas as pd

    from isocapsnet import load_model

    estimator = load_model(model)
    if not hasattr(estimator, "transform"):
        raise InputError(f"{type(estimator).__name__} learns no representation; predict is what it can do.")
    graphs = open_for_model(estimator, data, reading)
    features = estimator.transform(adjacency_of(graphs)).reshape(len(graphs), -1)
    table = pd.DataFrame(features, columns=[f"feature_{number}" for number in range(1, features.shape[1] + 1)])
    table.insert(0, "subject", graphs.subjects)
    spreadsheet_safe(table).to_csv(out, index=False)
    click.echo(printable(f"{features.shape[1]} features of {len(graphs)} graphs: {out}"))


def open_for_model(estimator: "GraphClassifier", data: str, reading: dict[str, Any]) -> "BrainGraphs":
    """Data for a fitted model, with its nodes in its order; what edge lists do not tell is as in training."""
    from isocapsnet.datasets.atlas import Layout

    like = Layout(estimator.n_nodes_in_, estimator.node_names_in_, estimator.directed_in_)
    return open_graphs(data, **reading, like=like)


def adjacency_of(graphs: "BrainGraphs") -> "NDArray[np.floating[Any]]":
    """Graphs ``(n_graphs, n_nodes, n_nodes)``; of time series, their correlations, which nothing is learned for."""
    if graphs.adjacency is not None:
        return graphs.adjacency
    from isocapsnet.datasets.connectivity import TimeSeriesConnectivity

    return TimeSeriesConnectivity().fit(graphs.time_series or ()).transform(graphs.time_series or ())
