"""What ``isocapsnet explain`` does."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from isocapsnet import __version__
from isocapsnet._safe_text import spreadsheet_safe
from isocapsnet._validation import InputError
from isocapsnet.cli._display import escape, make_console
from isocapsnet.cli._explanations import collect_reconstructions
from isocapsnet.cli.data import READING
from isocapsnet.cli.models import adjacency_of, open_for_model
from isocapsnet.cli.report import writing
from isocapsnet.datasets.formats.text import read_table
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.explain.artifacts import save_explanation
from isocapsnet.explain.attribution import is_network, sum_over_networks, sum_over_regions
from isocapsnet.explain.cards import EvidenceCard
from isocapsnet.explain.combine import combine
from isocapsnet.explain.explanation import Explanation, explain
from isocapsnet.explain.refits import explain_refits
from isocapsnet.models._persistence import load_model
from isocapsnet.report.content import Attribution, Reconstructions

_LISTED_REGIONS = 6
_LISTED_EDGES = 100


@dataclass(frozen=True)
class _Findings:
    """What was found of one model on one dataset."""

    title: str
    classes: Sequence[str]
    node_names: Sequence[str]
    coordinates: NDArray[Any] | None
    n_refits: int
    edges: NDArray[np.float64]
    randomization: float
    cards: Sequence[EvidenceCard]
    reconstructions: Reconstructions | None


def run_explain(model: Path, data: str, out: Path, options: Mapping[str, Any]) -> None:
    """Write cards.json, regions.csv, edges.csv, explanation.npz and figures into ``out``, and print a summary."""
    console = make_console()
    estimator = load_model(model)
    if not is_network(estimator):
        raise InputError(f"{model} holds {type(estimator).__name__}, which is no network; only networks are explained.")
    graphs = open_for_model(estimator, data, {name: options[name] for name in READING})
    X, labels, subjects = _known_graphs(estimator, model, data, graphs)
    networks = _read_networks(options["networks"], graphs.n_nodes)
    attribution, n_folds, seed = options["attribution"], options["folds"], options["seed"]
    refits = explain_refits(estimator, X, labels, n_folds, attribution, seed) if n_folds else ()
    with writing(out):  # before the work, so that nobody waits for figures that have no place
        out.mkdir(parents=True, exist_ok=True)
    own = explain(estimator, X, labels, attribution)
    fits: list[Explanation] = []
    tests: list[NDArray[np.int64]] = []
    with console.status(f"Fitting the settings of {model.name} to {n_folds} folds"):
        for explanation, test in refits:
            fits.append(explanation)
            tests.append(test)
    judged = fits or [own]
    findings = _Findings(
        title=f"{type(estimator).__name__} on {graphs.name or data}",
        classes=own.classes.tolist(),
        node_names=_node_names(graphs),
        coordinates=None if graphs.atlas is None else graphs.atlas.coordinates,
        n_refits=len(fits),
        edges=np.mean([explanation.edges for explanation in judged], axis=0, dtype=np.float64),
        randomization=float(np.mean([explanation.randomization for explanation in judged])),
        cards=combine(judged, tests or None, getattr(estimator, "templates_", None), seed),
        reconstructions=collect_reconstructions(
            type(estimator).__name__, judged, [test.tolist() for test in tests] or [range(len(X))], subjects
        ),
    )
    with writing(out):
        save_explanation(own, out)
        _write_tables(findings, networks, out)
        if options["figures"]:
            _draw(findings, out, console)
    _print_summary(findings, console)
    console.print(escape(f"Written: {', '.join(sorted(path.name for path in out.iterdir()))} in {out}"))


def _known_graphs(
    estimator: Any, model: Path, data: str, graphs: BrainGraphs
) -> tuple[NDArray[Any], NDArray[Any], list[str]]:
    """Graphs, labels and names of the subjects whose classes the model knows."""
    if graphs.n_nodes != estimator.n_nodes_in_:
        raise InputError(
            f"{data} has graphs of {graphs.n_nodes} nodes, but {model} was fitted to graphs of "
            f"{estimator.n_nodes_in_} nodes; explain it on data with the same regions."
        )
    if not graphs.is_labelled.any():
        raise InputError(f"{data} has no labels, and evidence is about classes; name their column with --target.")
    names = np.array(graphs.label_names)[graphs.labels]
    known = graphs.is_labelled & np.isin(names, [str(label) for label in estimator.classes_])
    if len(np.unique(names[known])) < 2:
        raise InputError(
            f"{model} tells apart {', '.join(map(str, estimator.classes_))}, but {data} has "
            f"{', '.join(graphs.label_names)}; two of the model's classes are needed."
        )
    position = {str(label): place for place, label in enumerate(estimator.classes_)}
    codes = [position[name] for name in names[known]]
    return adjacency_of(graphs)[known], estimator.classes_[codes], graphs.subjects[known].tolist()


def _node_names(graphs: BrainGraphs) -> list[str]:
    if graphs.atlas is not None:
        return list(graphs.atlas.node_names)
    return [f"node {node + 1}" for node in range(graphs.n_nodes)]


def _read_networks(path: Path | None, n_nodes: int) -> list[str] | None:
    if path is None:
        return None
    names = list(read_table(path).column("network"))
    if len(names) != n_nodes:
        raise InputError(f"{path} has {len(names)} rows; it needs one row for each of the {n_nodes} nodes.")
    return names


def _write_tables(findings: _Findings, networks: Sequence[str] | None, out: Path) -> None:
    content = {
        "isocapsnet": __version__,
        "title": findings.title,
        "classes": findings.classes,
        "node_names": findings.node_names,
        "n_refits": findings.n_refits,
        "randomization": findings.randomization,
        "cards": [card.to_json() for card in findings.cards],
    }
    (out / "cards.json").write_text(json.dumps(content, indent=1))
    spreadsheet_safe(_regions_frame(findings)).to_csv(out / "regions.csv", index=False)
    rows, columns = np.triu_indices(len(findings.edges), k=1)
    strongest = np.argsort(-np.abs(findings.edges[rows, columns]))[:_LISTED_EDGES]
    edges = [
        (findings.node_names[row], findings.node_names[column], row, column, findings.edges[row, column])
        for row, column in zip(rows[strongest], columns[strongest], strict=True)
    ]
    header = ["first", "second", "first_index", "second_index", "separation"]
    spreadsheet_safe(pd.DataFrame(edges, columns=header)).to_csv(out / "edges.csv", index=False)
    if networks is not None:
        names, sums = sum_over_networks(findings.edges, networks)
        frame = pd.DataFrame(sums, index=names, columns=names)
        spreadsheet_safe(frame).to_csv(out / "networks.csv", index_label="network")


def _regions_frame(findings: _Findings) -> pd.DataFrame:
    """Every listed region of every card, and of the edges; indices count from 0."""
    rows: list[dict[str, Any]] = [
        {
            "from": f"template {card.template + 1}",
            "verdict": card.verdict,
            "region": findings.node_names[region.node],
            "index": region.node,
            "share": region.share,
            "effect": region.effect.value,
            "effect_low": region.effect.low,
            "effect_high": region.effect.high,
            "fits": region.n_fits,
            "matches_better_in": findings.classes[region.favours],
        }
        for card in findings.cards
        for region in card.regions
    ]
    strength = sum_over_regions(findings.edges)
    total = strength.sum() or 1.0
    rows += [
        {"from": "edges", "region": findings.node_names[node], "index": node, "share": strength[node] / total}
        for node in np.argsort(-strength)
    ]
    return pd.DataFrame(rows)


def _draw(findings: _Findings, out: Path, console: Console) -> None:
    """Templates as sub-graphs, reconstructions and, with coordinates, glass brains; a note where that cannot be."""
    from isocapsnet.report.evidence import attribution_scene, card_scene
    from isocapsnet.report.figures import plot_template, save_figure
    from isocapsnet.report.gallery import draw_scene, reconstruction
    from isocapsnet.report.prose import class_title

    attribution = Attribution(findings.edges, findings.randomization, max(1, findings.n_refits))
    scenes = {"edges": attribution_scene(attribution, "edges")}
    try:
        for card in findings.cards:
            name = f"template-{card.template + 1}"
            save_figure(plot_template(np.asarray(card.matrix)), out / "figures", name)
            scenes[name] = card_scene(card.to_json(), len(findings.edges), name)
        if findings.reconstructions is not None:
            titles = [class_title(name) for name in findings.classes]
            drawn = reconstruction(findings.reconstructions, titles, findings.coordinates)
            save_figure(drawn.figure, out / "figures", "reconstruction")
        if findings.coordinates is None:
            console.print(
                "The nodes have no coordinates, so nothing is drawn on the brain; an atlas has some: --atlas."
            )
            return
        for name, scene in scenes.items():
            brain = draw_scene(scene, findings.coordinates, len(findings.classes))
            save_figure(brain, out / "figures", f"{name}-brain")
    except InputError as error:  # matplotlib or nilearn is not installed, and the tables do not need them
        console.print(escape(f"No figures: {error}"))


def _print_summary(findings: _Findings, console: Console) -> None:
    seen = (
        f"{findings.n_refits} refits, each on graphs it did not see"
        if findings.n_refits
        else "this model alone; effects are too good if it trained on these graphs"
    )
    table = Table(title=escape(f"{findings.title}: {seen}"), title_justify="left")
    for name in ("evidence", "effect d", "regions", "verdict"):
        table.add_column(name, overflow="fold")
    for card in findings.cards:
        effect = card.effect
        table.add_row(
            f"template {card.template + 1}",
            f"{effect.value:.2f} \\[{effect.low:.2f}, {effect.high:.2f}]",
            escape(", ".join(findings.node_names[region.node] for region in card.regions[:_LISTED_REGIONS])),
            escape(card.sentence),
        )
    strongest = np.argsort(-sum_over_regions(findings.edges))[:_LISTED_REGIONS]
    table.add_row(
        "edges",
        "",
        escape(", ".join(findings.node_names[node] for node in strongest)),
        f"rank correlation with an untrained network {findings.randomization:.2f} (near 0 is what should be seen)",
    )
    console.print(table)
