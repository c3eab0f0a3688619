"""Explanation of a fitted network on a dataset, with figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._fitting import open_for_model
from isocapsnet._planning import adjacency_of
from isocapsnet._validation import InputError
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
    networks: Sequence[str] | None = None,
    seed: int = 0,
    **reading: Any,
) -> Explanation:
    """Explain a fitted network on labelled graphs: its templates and motifs, where they match, which edges it uses.

    The settings of the model are fitted again on folds of the data, and effects and verdicts come from the graphs that
    each refit did not see. Graphs without a label, and those of classes that the model was not fitted to, are left out.

    Parameters
    ----------
    model : fitted network or path
        A network, or the file of a saved one.
    data, **reading
        See :func:`isocapsnet.benchmark`.
    folds, attribution, networks, seed
        See :func:`isocapsnet.explanation.explain`.

    Returns
    -------
    explanation : Explanation

    Examples
    --------
    >>> import isocapsnet
    >>> explanation = isocapsnet.explain("model.safetensors", "study.npz")    # doctest: +SKIP
    >>> explanation.table                                                     # doctest: +SKIP
    """
    model, graphs = open_for_model(model, data, reading)
    if not graphs.is_labelled.any():
        raise InputError("The graphs have no labels, which explanations need; name their column with target=.")
    names = np.array(graphs.label_names)[graphs.labels]
    is_used = graphs.is_labelled & np.isin(names, [str(label) for label in model.classes_])
    if len(np.unique(names[is_used])) < 2:
        raise InputError(
            f"The model has the classes {', '.join(map(str, model.classes_))}, but the graphs have "
            f"{', '.join(graphs.label_names)}; at least two classes of the model are needed."
        )
    code_of = {str(label): code for code, label in enumerate(model.classes_)}
    return explain_arrays(
        model,
        adjacency_of(graphs)[is_used],
        model.classes_[[code_of[name] for name in names[is_used]]],
        folds=folds,
        attribution=attribution,
        seed=seed,
        subjects=graphs.subjects[is_used].tolist(),
        networks=networks,
        node_names=() if graphs.atlas is None else graphs.atlas.node_names,
        title=f"{type(model).__name__} on {graphs.name or 'unnamed data'}",
    )


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
