"""Write result folders into docs/results.md, our figures beside the paper's.

::

    isocapsnet benchmark hiv_dti.npz --protocol paper --methods all --out results/hiv_dti
    isocapsnet sweep hiv_dti.npz --param kernel_size=1,2,3,4,5 --protocol paper --out results/sweep
    python benchmarks/paper_tables.py results/hiv_dti results/sweep

Each folder becomes one section between two markers; a section that is there already is replaced, everything else in
the file stays. The paper's figures are Tables 1 and 2 of arXiv 2206.13465. The last column of a benchmark says which
verdicts the resampled t-test gives for the same records.
"""

import argparse
import json
import math
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

import isocapsnet

#: The test that other papers use; a column has its verdicts where they differ.
_OTHER_TEST = "resampled-t"
_METHODS = (
    "wl", "freq", "cnn", "sdbn", "dgcnn", "autoencoder", "gcn", "gin", "diffpool", "fastisonn", "isonn", "capsnet",
    "isocapsnet",
)  # fmt: skip

#: Table 1: dataset to metric to one figure per method, in the order above.
PAPER_TABLE_1: dict[str, dict[str, tuple[float, ...]]] = {
    "hiv-fmri": {
        "accuracy": (.530, .543, .593, .665, .707, .469, .583, .643, .679, .739, .765, .746, .805),
        "f1": (.451, .593, .663, .667, .688, .355, .625, .638, .684, .707, .759, .700, .801),
    },
    "hiv-dti": {
        "accuracy": (.427, .646, .543, .659, .487, .624, .624, .626, .650, .601, .675, .731, .750),
        "f1": (.407, .639, .557, .656, .442, .589, .634, .627, .616, .619, .723, .617, .672),
    },
    "bp-fmri": {
        "accuracy": (.545, .568, .546, .648, .639, .536, .609, .577, .619, .623, .649, .576, .669),
        "f1": (.598, .576, .528, .637, .671, .695, .643, .603, .654, .632, .697, .547, .703),
    },
    "adhd-fmri": {
        "accuracy": (.502, .551, .569, .503, .614, .562, .581, .530, .607, .624, .641, .563, .621),
        "f1": (.475, .554, .572, .668, .616, .667, .593, .595, .619, .623, .656, .594, .671),
    },
}  # fmt: skip

#: Table 2, on HIV-fMRI: k to accuracy, F1, seconds.
PAPER_TABLE_2 = {
    1: (0.261, 0.108, 3.579),
    2: (0.435, 0.448, 4.862),
    3: (0.696, 0.606, 6.186),
    4: (0.805, 0.801, 10.995),
    5: (0.739, 0.628, 92.078),
}

#: The method of the paper that another method is set beside: its figures come from the authors' program.
_SAME_FIGURES = {"isocapsnet-released": "isocapsnet"}

#: What is said above a table of template sizes.
_ABOUT_SIZES = (
    "The paper's figures are for HIV-fMRI; its seconds come from another machine. The column `s/job` shows roughly "
    "what this table costs. It cannot show how the time grows with k: other work may have kept the machine busy, and "
    "fits of one k can have more epochs than those of another. [performance.md](performance.md) has the times of the "
    "match for each k, the best of several rounds."
)


def main() -> None:
    """Write each folder's section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/results.md"))
    options = parser.parse_args()
    text = options.out.read_text() if options.out.exists() else "# Results\n"
    for folder in options.folders:
        text = put_section(text, folder.name, section_of(folder))
    options.out.write_text(text)
    print(f"{len(options.folders)} section(s) in {options.out}")


def section_of(folder: Path) -> str:
    """The section of a results folder."""
    content = json.loads((folder / "results.json").read_text())
    if (folder / "sweep.csv").exists():
        return _sweep_section(folder, content)
    others = isocapsnet.open_results(folder, test=_OTHER_TEST)
    chosen = {
        method: ", ".join(f"{name} {times}" for name, times in counter.most_common())
        for method, counter in others.transforms.items()
    }
    return _benchmark_section(content, others.verdicts, chosen)


def put_section(text: str, name: str, section: str) -> str:
    """``text`` with the section of this name replaced, or added at the end."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    block = f"{begin}\n{section.strip()}\n{end}"
    found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if found.search(text):
        return found.sub(lambda _: block, text)
    return f"{text.rstrip()}\n\n{block}\n"


def paper_figures(dataset: str, method: str) -> dict[str, float]:
    """The paper's accuracy and F1 of a method (with its default parameters) on a dataset; empty where it has none."""
    figures, method = PAPER_TABLE_1.get(dataset.lower().replace("_", "-"), {}), _SAME_FIGURES.get(method, method)
    if method not in _METHODS:
        return {}
    return {metric: values[_METHODS.index(method)] for metric, values in figures.items()}


def _benchmark_section(content: dict[str, Any], others: Mapping[str, str], chosen: Mapping[str, str]) -> str:
    """A table of methods; the last column has the verdict by another test, ``others``, where it differs.

    ``chosen`` has the transforms that the search of a method chose, if it could choose.
    """
    name, protocol = content["passport"]["name"], content["protocol"]
    has_paper = bool(paper_figures(name, "isocapsnet"))
    header = ["method", "accuracy", "weighted F1", "balanced accuracy", "ROC AUC [95 %]", "s/job", "verdict"]
    header += ["transform (folds)", "by `resampled-t`"] if chosen else ["by `resampled-t`"]
    if has_paper:
        header[2:2], header[4:4] = ["paper"], ["paper"]
    lines, n_different = [table_row(header), table_row(["---"] * len(header))], 0
    for method in sorted(content["methods"], key=lambda m: -(m["metrics"]["roc_auc"]["mean"] or 0)):
        metrics = {metric: interval["mean"] for metric, interval in method["metrics"].items()}
        area, paper = method["metrics"]["roc_auc"], paper_figures(name, method["method"])
        cells = [f"`{method['method']}`", number(metrics["accuracy"]), number(metrics["weighted_f1"])]
        if has_paper:
            cells = [*cells[:2], number(paper.get("accuracy")), cells[2], number(paper.get("f1"))]
        interval = f"{number(area['mean'])} [{number(area['low'])}, {number(area['high'])}]"
        cells += [number(metrics["balanced_accuracy"]), interval, number(method["seconds"], 2), method["verdict"]]
        cells += [chosen.get(method["method"], "-")] if chosen else []
        other = others.get(method["method"], method["verdict"]).split(" (")[0]
        differs = other != method["verdict"].split(" (")[0]
        n_different += differs
        lines.append(table_row([*cells, other if differs else "-"]))
    classes = ", ".join(f"{label}: {count}" for label, count in content["passport"]["classes"].items())
    what = (
        f"{content['passport']['n_graphs']} graphs of {content['passport']['n_nodes']} nodes ({classes}), "
        f"protocol {protocol['name']}, {content['detectable']['n_scores']} test folds. "
        f"80 % power begins at a ROC AUC of {number(content['detectable']['above_chance'], 2)} against chance."
    )
    n_methods = len(content["methods"])
    note = f"{n_different} of {n_methods} verdicts differ with `--test {_OTHER_TEST}`."
    if any("too few folds" in verdict for verdict in others.values()):
        note += " By that test even a perfect score would not be above chance here: it needs more folds."
    return "\n".join([f"## {name}", "", what, "", f"```\n{content['command']}\n```", "", *lines, "", note])


def _sweep_section(folder: Path, content: dict[str, Any]) -> str:
    frame = pd.read_csv(folder / "sweep.csv")
    parameter = str(frame.columns[0])
    header = [parameter, "accuracy", "weighted F1", "ROC AUC", "s/job", "template"]
    if parameter == "kernel_size":
        header[1:1] = ["paper: accuracy", "F1", "s"]
    lines = [table_row(header), table_row(["---"] * len(header))]
    for _, row in frame.iterrows():
        cells = [str(row[parameter])]
        if parameter == "kernel_size":
            cells += [number(value) for value in PAPER_TABLE_2.get(int(row[parameter]), [None] * 3)]
        cells += [number(row[name]) for name in ("accuracy", "weighted_f1", "roc_auc")] + [number(row.seconds, 2)]
        template = json.loads(row.template) or []
        cells.append("<br>".join(" ".join(f"{value:.2f}" for value in line) for line in template) or "-")
        lines.append(table_row(cells))
    title = f"## {content['passport']['name']}: {parameter}"
    note = paragraph(_ABOUT_SIZES) if parameter == "kernel_size" else ""
    return "\n".join([title, "", note, "", f"```\n{content['command']}\n```", "", *lines])


def paragraph(text: str) -> str:
    """Text in lines of a page."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def table_row(cells: list[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def number(value: float | None, digits: int = 3) -> str:
    """A figure, or a dash if there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


if __name__ == "__main__":
    main()
