"""``isocapsnet explain``: what a saved network uses, and whether other fits agree."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isocapsnet._validation import InputError
from isocapsnet.cli._options import policy_options
from isocapsnet.cli.data import reading_options
from isocapsnet.cli.report import writing

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table as RichTable

    from isocapsnet.explanation.summary import Explanation

_LISTED_REGIONS = 6
_LISTED_PAIRS = 6


@click.command()
@click.argument("model", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("data")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder of the explanation."
)
@click.option(
    "--folds",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Number of refits, each explained on the fold that it did not see; 0: explain MODEL itself.",
)
@click.option(
    "--attribution",
    type=click.Choice(["gradient", "integrated"]),
    default="gradient",
    show_default=True,
    help="Attribution of edges: gradient, or integrated gradients (needs captum).",
)
@click.option(
    "--networks",
    metavar="NAME|TABLE",
    help="Networks of the atlas (default: its first, yeo7), or a CSV file with a column `network`, one row per node.",
)
@click.option("--figures/--no-figures", default=True, help="Draw templates and, with coordinates, the brain (default).")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the folds and refits.")
@policy_options
@reading_options
def explain(
    model: Path, data: str, out: Path, folds: int, attribution: str, networks: str | None, figures: bool, seed: int,
    unseen_sites: str | None, missing_covariates: str, **reading: Any,
) -> None:  # fmt: skip
    """Explain a saved MODEL on DATA: its templates and motifs, where they match, whether they are stable, its edges.

    A model cannot be judged on graphs that it was trained on, and stability cannot be judged from one fit. The settings
    of MODEL are therefore fitted again on folds of DATA. Effects and verdicts come from the graphs that each refit did
    not see. The preparation of MODEL is fitted again in each fold; notes say whether the edges are those of DATA.

    \b
    Examples
      isocapsnet explain model.safetensors study.npz --out explained
      isocapsnet explain model.safetensors study/ --target diagnosis --atlas aal116 --out explained
      isocapsnet explain model.safetensors unseen.npz --folds 0 --out explained
    """
    from isocapsnet import _explaining
    from isocapsnet._fitting import open_for_model
    from isocapsnet.cli._display import escape, make_console
    from isocapsnet.datasets.formats.text import read_table

    console = make_console()
    estimator, graphs = open_for_model(model, data, reading)
    is_table = networks is not None and Path(networks).is_file()
    names = list(read_table(Path(str(networks))).column("network")) if is_table else networks
    with writing(out):  # before the work, which would be lost
        is_new = not out.exists()
        out.mkdir(parents=True, exist_ok=True)
    try:
        explanation = _explaining.explain(
            estimator, graphs, folds=folds, attribution=attribution, networks=names, seed=seed,
            unseen_sites=unseen_sites, missing_covariates=missing_covariates,
        )  # fmt: skip
    except InputError:
        if is_new:
            out.rmdir()
        raise
    coordinates = None if graphs.atlas is None else graphs.atlas.coordinates
    with writing(out):
        explanation.save(out)
        if figures:
            try:
                _explaining.save_figures(explanation, coordinates, out / "figures")
            except InputError as error:  # matplotlib or nilearn is not installed
                console.print(escape(f"No figures: {error}"))
            if coordinates is None:
                console.print("The nodes have no coordinates, so nothing is drawn on the brain; use --atlas.")
    console.print(_summary(explanation))
    if (pairs := explanation.network_table) is not None:
        console.print(_networks(pairs, explanation.partition))
    for note in explanation.notes:
        console.print(escape(note))
    console.print(escape(f"Written: {', '.join(sorted(path.name for path in out.iterdir()))} in {out}"))


def _networks(pairs: "pd.DataFrame", partition: str) -> "RichTable":
    """The pairs of networks with the largest share of the attribution."""
    from rich.table import Table as RichTable

    from isocapsnet.cli._display import escape

    title = f"Networks that the important edges join{f' ({partition})' if partition else ''}"
    table = RichTable(title=escape(title), title_justify="left")
    for name in ("networks", "of 100 strongest edges", "share of the attribution", "share of all edges"):
        table.add_column(name, justify="left" if name == "networks" else "right")
    for row in pairs[pairs["share"] > 0].head(_LISTED_PAIRS).to_dict("records"):
        first, second = row["first"], row["second"]
        pair = f"within {first}" if first == second else f"{first} – {second}"
        table.add_row(escape(pair), str(row["strongest"]), f"{row['share']:.1%}", f"{row['expected']:.1%}")
    return table


def _summary(explanation: "Explanation") -> "RichTable":
    """Effects, regions and verdicts of all templates and motifs, and the regions of the strongest edges.

    The share beside a region of a motif is that of the motif's carriers.
    """
    from rich.table import Table as RichTable

    from isocapsnet._format import interval
    from isocapsnet.cli._display import escape

    graphs = (
        f"{explanation.n_refits} refits, each explained on graphs it did not see"
        if explanation.n_refits
        else "the model itself; effects are too large if it trained on these graphs"
    )
    table = RichTable(title=escape(f"{explanation.title}: {graphs}"), title_justify="left")
    for name in ("evidence", "effect d", "regions", "verdict"):
        table.add_column(name, overflow="fold")
    rows: list[tuple[str, Any, list[str]]] = [
        (f"template {card.template + 1}", card, [explanation.node_name(region.node) for region in card.regions])
        for card in explanation.cards
    ]
    for motif in explanation.motif_cards:
        shares = motif.region_shares
        nodes = sorted(range(len(shares)), key=lambda node: -shares[node])
        regions = [f"{explanation.node_name(node)} ({shares[node]:.0%})" for node in nodes]
        rows.append((f"motif {motif.motif + 1}", motif, regions))
    for name, card, regions in rows:
        effect = interval(card.effect.value, card.effect.low, card.effect.high, digits=2)
        table.add_row(name, escape(effect), escape(", ".join(regions[:_LISTED_REGIONS])), escape(card.sentence))
    strongest = explanation.strongest_regions[:_LISTED_REGIONS]
    table.add_row(
        "edges",
        "",
        escape(", ".join(explanation.node_name(node) for node in strongest)),
        f"rank correlation with an untrained network {explanation.randomization:.2f} (should be near 0)",
    )
    return table
