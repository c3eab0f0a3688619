"""What each method can see: all methods on all planted effects, written to docs/capabilities.md with a heat map.

    python benchmarks/capabilities.py                                       # everything that is missing, then the page
    python benchmarks/capabilities.py --methods isocapsnet                  # these rows of the page anew
    python benchmarks/capabilities.py --methods isocapsnet,linear --effects motif,wiring --seeds 5 --protocol nested \\
        --out motifs --page motifs/page.md                                  # another question, on a page of its own

A run that was interrupted goes on with the same command: finished folds are in the results folder. The scores of
the page are in a JSON file beside it. A run replaces those of its methods and effects and keeps the others, so that
one changed method does not cost a run of all. A page has one protocol and one size of data; others are refused.
Measured on one core, all methods take three minutes for one effect and seed.
"""

import argparse
import json
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from isocapsnet import InputError, Results, benchmark, make_planted_graphs
from isocapsnet._format import interval
from isocapsnet._methods import list_methods
from isocapsnet.datasets import BrainGraphs
from isocapsnet.datasets.synthetic import PlantedGraphs
from isocapsnet.evaluation.areas import FoldArea, auc_variance
from isocapsnet.evaluation.inference import area_interval
from isocapsnet.evaluation.statistics import CHANCE, Interval
from isocapsnet.models import MODELS
from isocapsnet.report.figures import style
from paper_tables import put_section

#: A 95 % interval above these means "sees" and "sees in part"; one below the first means "does not see".
CLEAR, PART = 0.8, 0.6
GRADES = ("sees", "sees in part", "may see", "does not see")
N_FOLDS = 3


class Effect(NamedTuple):
    """A planted difference: arguments of :func:`make_planted_graphs` and what they plant."""

    arguments: dict[str, Any]
    description: str


EFFECTS = {
    "existence": Effect({"effect": "existence"}, "class 1 has a pattern, at the same nodes in all graphs"),
    "orientation": Effect(
        {"effect": "orientation"},
        "both classes have the same pattern at the same nodes; in class 1 its nodes are permuted",
    ),
    "mean": Effect({"effect": "mean"}, "all edges of class 1 are a little stronger"),
    "hub": Effect({"effect": "hub"}, "the edges of one node are stronger in class 1"),
    "motif": Effect(
        {"effect": "motif"},
        "class 1 has a pattern, in each graph in another block of neighbouring nodes and in another order",
    ),
    "wiring": Effect(
        {"effect": "wiring"},
        "both classes have a pattern, placed like the motif; the two have the same edge weights, wired differently",
    ),
    "free motif": Effect({"effect": "motif", "placement": "free"}, "the motif, at nodes drawn at random in each graph"),
    "free wiring": Effect(
        {"effect": "wiring", "placement": "free"}, "the wiring, at nodes drawn at random in each graph"
    ),
    "null": Effect({"effect": "null"}, "nothing: both classes have the same pattern, and labels are random"),
}
NULL = "null"


def benchmark_planted(planted: PlantedGraphs, name: str, seed: int, options: argparse.Namespace, jobs: int) -> Results:
    """Compare ``options.methods`` on a dataset, in a folder of its own under ``options.out``."""
    words = "".join(letter if letter.isalnum() else " " for letter in name).split()
    return benchmark(
        BrainGraphs(planted.graphs, planted.labels, name=f"{name}, seed {seed}"),
        options.methods,
        protocol=options.protocol,
        folds=N_FOLDS,
        repeats=1,
        out=options.out / "-".join([*words, str(seed)]),
        save_models=False,
        explain=False,
        jobs=jobs,
        progress=False,
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Benchmark the methods: their versions and, for each effect, the ROC AUC of all folds ``(n_seeds, n_folds)``."""
    rows: dict[str, Any] = {
        spec.label: {"version": spec.version, "scores": {effect: [] for effect in options.effects}}
        for spec in list_methods(options.methods)
    }
    for effect in options.effects:
        for seed in range(options.seeds):
            planted = make_planted_graphs(
                options.n_graphs,
                options.n_nodes,
                kernel_size=options.kernel_size,
                signal_to_noise=options.signal_to_noise,
                random_state=seed,
                **EFFECTS[effect].arguments,
            )
            results = benchmark_planted(planted, effect, seed, options, jobs=options.jobs)
            for row in results.summary.rows:
                if row.failed:
                    raise InputError(f"{row.method} on {effect}, seed {seed}: {row.verdict}.")
                rows[row.method]["scores"][effect].append([fold["roc_auc"] for fold in row.scores.values()])
            means = (f"{row.method} {row.metrics['roc_auc'].mean:.2f}" for row in results.best_first)
            print(f"{effect}, seed {seed}: {', '.join(means)}", flush=True)
    return rows


def merge(stored: dict[str, Any] | None, settings: dict[str, Any], rows: dict[str, Any]) -> dict[str, Any]:
    """What the page holds after a run: its cells replace those of the page, and all others stay."""
    stored = stored or {"settings": settings, "methods": {}}
    if stored["settings"] != settings:
        different = [name for name in settings if settings[name] != stored["settings"].get(name)]
        raise InputError(f"The page has other settings ({', '.join(different)}); give this run a --page of its own.")
    methods = dict(stored["methods"])
    for name, row in rows.items():
        old = methods.get(name, row)
        # Scores of another version of the method are not kept beside new ones.
        kept = old["scores"] if old["version"] == row["version"] else {}
        scores = kept | row["scores"]
        methods[name] = row | {"scores": {effect: scores[effect] for effect in EFFECTS if effect in scores}}
    ordered = {name: methods[name] for name in [*MODELS, *methods] if name in methods}
    return {"settings": settings, "methods": ordered}


def summarise(content: dict[str, Any]) -> dict[str, dict[str, Interval]]:
    """Method to effect to mean ROC AUC and interval, the method that sees most first."""
    settings = content["settings"]
    labels = np.repeat([0, 1], settings["n_graphs"] // 2 // N_FOLDS)
    variance = auc_variance(CHANCE, np.bincount(labels).tolist())
    table = {}
    for name, row in content["methods"].items():
        cells = {}
        for effect, folds in row["scores"].items():
            scores = np.ravel(folds)
            null = 0.0 if set(scores) == {CHANCE} else variance
            # Seeds are independent datasets, so only the folds of one of them share training graphs.
            n_train = len(folds) * (N_FOLDS - 1) * len(labels)
            cells[effect] = area_interval(
                [FoldArea(area, null, labels, np.zeros(len(labels)), n_train) for area in scores]
            )
        table[name] = cells
    return dict(sorted(table.items(), key=lambda item: -_mean_over_effects(item[1])))


def _mean_over_effects(cells: dict[str, Interval]) -> float:
    return float(np.mean([cell.mean for effect, cell in cells.items() if effect != NULL] or [0.0]))


def grade(cell: Interval) -> str:
    """Whether a method sees an effect, as far as the interval can tell."""
    if cell.low > PART:
        return "sees" if cell.low > CLEAR else "sees in part"
    return "does not see" if cell.high < CLEAR else "may see"


def describe(cells: dict[str, Interval]) -> str:
    """What a method can see and what it cannot, in one sentence."""
    groups = {name: [e for e, cell in cells.items() if e != NULL and grade(cell) == name] for name in GRADES}
    parts = [f"{name} {_listed(effects)}" for name, effects in groups.items() if effects]
    if not any(groups[name] for name in GRADES[:-1]):
        parts = ["sees none of these effects"]
    if NULL in cells and cells[NULL].low > 0.5:
        parts.append("finds something in null data, where nothing is")
    return "; ".join(parts) + "."


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


@style.styled()
def draw(table: dict[str, dict[str, Interval]]) -> Any:
    """The heat map: mean ROC AUC in colour and figures, with its interval."""
    effects = [effect for effect in EFFECTS if any(effect in cells for cells in table.values())]
    means = np.array([[cells[e].mean if e in cells else np.nan for e in effects] for cells in table.values()])
    figure, (axis,) = style.new_figure(style.FULL, 0.75 + 0.31 * len(table))
    image = axis.imshow(means, cmap=style.colour_map("magnitude"), vmin=0.5, vmax=1, aspect="auto")
    for row, cells in enumerate(table.values()):
        for column, effect in enumerate(effects):
            if effect in cells:
                mean, low, high = cells[effect]
                colour = "white" if mean > 0.78 else style.INK
                weight = "bold" if grade(cells[effect]) == "sees" else "normal"
                centre = {"ha": "center", "color": colour}
                axis.text(column, row - 0.12, f"{mean:.2f}", va="center", fontsize=7.5, weight=weight, **centre)
                axis.text(column, row + 0.27, f"{low:.2f} to {high:.2f}", va="center", fontsize=5, **centre)
    axis.set_xticks(range(len(effects)), effects)
    axis.xaxis.tick_top()
    style.list_on_y(axis, list(table))
    axis.set_ylim(len(table) - 0.5, -0.5)
    axis.tick_params(length=0)
    axis.set_xticks(np.arange(len(effects) + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(len(table) + 1) - 0.5, minor=True)
    axis.grid(which="minor", color="white", lw=1.5)
    axis.tick_params(which="minor", length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axis, fraction=0.025, pad=0.01, label="mean ROC AUC")
    bar.outline.set_visible(False)
    return figure


def sections(content: dict[str, Any]) -> dict[str, list[str]]:
    """The generated sections of the page in Markdown."""
    table, settings = summarise(content), content["settings"]
    effects = [effect for effect in EFFECTS if any(effect in cells for cells in table.values())]
    seen_by = ["| effect | what differs | seen by | in part by | perhaps by |", "|---|---|---|---|---|"]
    for effect in effects:
        grades = {name: grade(cells[effect]) for name, cells in table.items() if effect in cells}
        if effect == NULL:  # whoever is above chance here raises a false alarm
            grades = {name: "sees" for name in grades if table[name][effect].low > 0.5}
        names = [[f"`{name}`" for name in grades if grades[name] == verb] for verb in GRADES[:-1]]
        cells = [effect, EFFECTS[effect].description, *(", ".join(several) or "–" for several in names)]
        seen_by.append(f"| {' | '.join(cells)} |")
    figures = [f"| method | {' | '.join(effects)} |", "|---" * (len(effects) + 1) + "|"]
    for name, row in table.items():
        cells = [interval(*row[effect], digits=2) if effect in row else "–" for effect in effects]
        figures.append(f"| `{name}` | {' | '.join(cells)} |")
    n_seeds = sorted({len(folds) for row in content["methods"].values() for folds in row["scores"].values()})
    measured = (
        "For each effect {datasets} of {n_graphs} graphs of {n_nodes} nodes, half of them of class 1, with "
        "patterns of {kernel_size} nodes and a signal to noise of {signal_to_noise:g} (`make_planted_graphs`, seeds "
        'from 0). Protocol "{protocol}" ({tuning}), {n_folds} stratified folds, the same for all methods. Each figure '
        "is the mean over all test folds of the datasets."
    )
    tuning = "each method's defaults, without a search" if settings["protocol"] == "paper" else "with a search"
    datasets = " to ".join(map(str, [n_seeds[0], n_seeds[-1]] if len(n_seeds) > 1 else n_seeds))
    datasets = "one dataset" if datasets == "1" else f"{datasets} datasets"
    measured = measured.format(**settings, tuning=tuning, n_folds=N_FOLDS, datasets=datasets)
    if missing := [f"`{name}`" for name in MODELS if name not in table]:
        measured += f" Not measured yet: {_listed(missing)}."
    return {
        "what each method sees": [f"- `{name}` {describe(cells)}" for name, cells in table.items()],
        "who sees each effect": seen_by,
        "figures": figures,
        "how it was measured": [fill(measured, 120)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="all", help='as in "isocapsnet[kernel_size=5],linear" (default: all)')
    parser.add_argument("--effects", type=lambda text: text.split(","), default=list(EFFECTS), help="default: all")
    parser.add_argument("--seeds", type=int, default=1, help="datasets per effect (default: 1)")
    parser.add_argument("--protocol", choices=("paper", "nested"), default="paper", help="default: paper, no search")
    parser.add_argument("--n-graphs", type=int, default=240)
    parser.add_argument("--n-nodes", type=int, default=24)
    parser.add_argument("--kernel-size", type=int, default=4, help="nodes of the planted patterns")
    parser.add_argument("--signal-to-noise", type=float, default=5.0)
    parser.add_argument("--out", type=Path, default=Path("isocapsnet-results/capabilities"), help="results folder")
    parser.add_argument("--page", type=Path, default=Path("docs/capabilities.md"))
    parser.add_argument("--jobs", type=int, default=1, help="worker processes (default: 1)")
    options = parser.parse_args()
    if unknown := [name for name in options.effects if name not in EFFECTS]:
        parser.error(f"there is no effect {unknown[0]!r}; choose from {', '.join(EFFECTS)}")
    names = ("protocol", "n_graphs", "n_nodes", "kernel_size", "signal_to_noise")
    settings = {name: getattr(options, name) for name in names}
    path = options.page.with_suffix(".json")
    stored = json.loads(path.read_text()) if path.exists() else None
    try:
        merge(stored, settings, {})  # refused before anything is computed
        content = merge(stored, settings, run(options))
    except InputError as error:
        parser.error(str(error))
    picture = options.page.parent / "images" / "capabilities.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_bytes(style.as_png(draw(summarise(content)), dpi=200))
    path.write_text(json.dumps(content, indent=1) + "\n")
    text = options.page.read_text() if options.page.exists() else "# What each method can see\n"
    for name, lines in sections(content).items():
        text = put_section(text, name, "\n".join(lines))
    options.page.write_text(text)
    print(options.page)


if __name__ == "__main__":
    main()
