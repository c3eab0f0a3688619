"""Explanation of a fitted network on a dataset, with figures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._fitting import open_for_model, prepare_for
from isocapsnet._packages import check_packages
from isocapsnet._pipelines import CONNECTIVITY, PreparedModel
from isocapsnet._progress import show_stages
from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import Atlas
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation.preparation import Preparation
from isocapsnet.evaluation.samples import Samples
from isocapsnet.explanation.fits import Prepare
from isocapsnet.explanation.summary import Explanation
from isocapsnet.explanation.summary import explain as explain_arrays
from isocapsnet.report.evidence import card_scene, edge_scene, motif_scene
from isocapsnet.report.figures.brain import plot_carriers, plot_one_of_each_class, plot_scene
from isocapsnet.report.figures.style import save_figure
from isocapsnet.report.figures.templates import plot_template
from isocapsnet.report.prose import class_title


def explain(
    model: Any,
    data: Any,
    *,
    folds: int = 5,
    attribution: str = "gradient",
    networks: str | Sequence[str] | None = None,
    seed: int = 0,
    unseen_sites: str | None = None,
    missing_covariates: str = "refuse",
    progress: bool = True,
    **reading: Any,
) -> Explanation:
    """Explain a fitted network on labelled graphs: its templates and motifs, where they match, which edges it uses.

    The settings of the model are fitted again on folds of the data, and effects and verdicts come from the graphs that
    each refit did not see. Graphs without a label, and those of classes that the model was not fitted to, are left out.

    Parameters
    ----------
    model : fitted network, PreparedModel or path
        A model, or the file of a saved one. The preparation of a model is fitted again in each refit. ``notes`` of the
        explanation say whether its edges are those of the data or, as in tangent space, mixtures of them.
    data : BrainGraphs, path, str or tuple (X, y)
        See :func:`isocapsnet.benchmark`.
    folds, attribution : optional
        See :func:`isocapsnet.explanation.explain`.
    networks : str or sequence of str (n_nodes,), optional
        The network of each node, or the name of networks of the atlas, such as "yeo17". By default the first ones of
        the atlas, which are those of Yeo with 7 networks in built-in atlases. ``explanation.network_table`` says which
        networks the important edges join.
    seed : int
        Seed of the refits.
    unseen_sites, missing_covariates : optional
        See :func:`isocapsnet.predict`.
    progress : bool
        Show the refits and their epochs in a terminal or notebook.
    **reading
        How to read a path; see :func:`isocapsnet.load_graphs`.

    Returns
    -------
    explanation : Explanation
        Evidence cards, regions and edges.

    Examples
    --------
    >>> import isocapsnet
    >>> explanation = isocapsnet.explain("model.safetensors", "study.npz")
    >>> explanation.table
    """
    if attribution == "integrated":
        check_packages("attribution=integrated", {"captum": "attribution"}, otherwise="or use attribution=gradient")
    opened, graphs = open_for_model(model, data, reading)
    if not graphs.is_labelled.any():
        raise InputError("The graphs have no labels, which explanations need; name their column with target=.")
    model, prepared = prepare_for(opened, graphs, unseen_sites, missing_covariates)
    names = np.array(graphs.label_names)[graphs.labels]
    is_used = graphs.is_labelled & np.isin(names, [str(label) for label in model.classes_])
    if len(np.unique(names[is_used])) < 2:
        raise InputError(
            f"The model has the classes {', '.join(map(str, model.classes_))}, but the graphs have "
            f"{', '.join(graphs.label_names)}; at least two classes of the model are needed."
        )
    code_of = {str(label): code for code, label in enumerate(model.classes_)}
    labels = model.classes_[[code_of[name] for name in names[is_used]]]
    has_steps = isinstance(opened, PreparedModel)
    partition, of_nodes = choose_networks(graphs.atlas, networks)
    title = f"{type(model).__name__} on {graphs.name or 'unnamed data'}"
    with show_stages(f"Explaining {title}", quiet=not progress):
        explanation = explain_arrays(
            model,
            prepared[is_used],
            labels,
            folds=folds,
            attribution=attribution,
            seed=seed,
            subjects=graphs.identifiers[is_used].tolist(),
            networks=of_nodes,
            partition=partition,
            prepare=_prepare_folds(opened, graphs, np.flatnonzero(is_used), labels) if has_steps else None,
            node_names=() if graphs.atlas is None else graphs.atlas.node_names,
            title=title,
        )
    notes = describe_edges(opened) if has_steps else []
    return replace(explanation, notes=[*notes, *explanation.notes])


def choose_networks(atlas: Atlas | None, networks: str | Sequence[str] | None) -> tuple[str, Sequence[str] | None]:
    """The name of the networks and the network of each node, of the atlas unless they are given."""
    offered = {} if atlas is None else atlas.networks
    if networks is None:
        return next(iter(offered.items()), ("", None))
    if isinstance(networks, str):
        if networks not in offered:
            has = (
                f"has the networks {', '.join(offered)}" if offered else "has no networks; give one that has, as atlas="
            )
            raise InputError(f"networks={networks!r} is unknown; the atlas of the data {has}.")
        return networks, offered[networks]
    return "", networks


def _prepare_folds(model: PreparedModel, graphs: BrainGraphs, used: NDArray[np.int64], labels: NDArray[Any]) -> Prepare:
    """Prepare the used graphs of a fold as the preparation of a model does, fitted to its training part."""
    samples = Samples(graphs, use_series=model.needs_series)

    def prepare(train: NDArray[np.int64], test: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        preparation = Preparation(model.steps)
        return preparation.fit(samples, used[train], labels[train]), preparation.apply(samples, used[test])

    return prepare


def describe_edges(model: PreparedModel) -> list[str]:
    """Which edges an explanation of a model is about: those of the data, or mixtures of them."""
    fitted = model.preparation.fitted
    names: dict[str, list[str]] = {"linear": [], "monotone": [], "edgewise": [], "mixed": []}
    for step, transformer in fitted:
        if step.name != CONNECTIVITY:
            names[transformer.on_edges].append(step.name)
    shifting = [step.name for step, transformer in fitted if transformer.shifts_edges]
    kind = fitted[0][0].parameters.get("kind", "correlation") if model.needs_series else None
    if names["mixed"] or kind == "tangent":
        which = names["mixed"] or ["tangent"]
        return [
            f"The explanation is not about edges of the data: {_are(which)} not linear, and each entry of the matrices "
            "depends on all edges. Regions and edges below are those of the prepared matrices."
        ]
    edges = "those of the data" if kind is None else f"{kind} of the time series"
    notes = [f"The edges of the explanation are {edges}."]
    if names["linear"]:
        notes.append(
            f"{_are(names['linear'])} linear in each edge: edges are scaled{' and shifted' * bool(shifting)}, so what "
            "a prepared edge adds to the scores is what the edge itself adds."
        )
    if names["monotone"]:
        signs = "" if shifting or names["edgewise"] else "signs are those of the data, and "
        notes.append(
            f"{_are(names['monotone'])} monotone in each edge: {signs}sizes are in units of the prepared graphs."
        )
    if changing := [*names["edgewise"], *shifting]:
        notes.append(f"The sign of an edge may be changed by {', '.join(changing)}: signs are of prepared edges.")
    return notes


def _are(names: Sequence[str]) -> str:
    """``a is`` or ``a, b are``."""
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def save_figures(explanation: Explanation, coordinates: NDArray[Any] | None, folder: Path) -> None:
    """Save templates, motifs, reconstructions and, with coordinates (n_nodes, 3), glass brains as PNG and SVG."""
    scenes = {"edges": edge_scene(explanation, "edges")}
    titles = [class_title(name) for name in explanation.classes]
    for card in explanation.cards:
        name = f"template-{card.template + 1}"
        save_figure(plot_template(card.matrix), folder, name)
        scenes[name] = card_scene(card, len(explanation.edges), name)
    for motif in explanation.motif_cards:
        name = f"motif-{motif.motif + 1}"
        save_figure(plot_template(motif.matrix), folder, name)
        save_figure(plot_template(motif.learned), folder, f"{name}-learned")
        scenes[name] = motif_scene(motif, titles, name)
        if coordinates is not None and motif.carriers:
            save_figure(plot_carriers(motif, titles, coordinates), folder, f"{name}-carriers")
    if explanation.reconstructions is not None:
        figure, _ = plot_one_of_each_class(explanation.reconstructions, titles, coordinates)
        save_figure(figure, folder, "reconstruction")
    if coordinates is not None:
        for name, scene in scenes.items():
            save_figure(plot_scene(scene, coordinates, len(explanation.classes)), folder, f"{name}-brain")
