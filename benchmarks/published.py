"""Do the paper's figures hold? The paper's figures beside the constant predictor and beside ours, in docs/published.md.

    python benchmarks/published.py             # what follows from the paper alone
    python benchmarks/results.py               # everything

Figures are Tables 1 and 2 of arXiv 2206.13465. The numbers of subjects are those of the data that its program loads.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import binomtest

from paper_tables import PAPER_TABLE_1, PAPER_TABLE_2, number, paper_figures, paragraph, put_section, table_row


class Constant(NamedTuple):
    """What always answering the most frequent class scores."""

    accuracy: float
    weighted_f1: float


class Source(NamedTuple):
    """Which figures of the paper a run is set beside, and whether it is about the same data."""

    dataset: str
    is_same: bool
    what: str


#: Positive and negative subjects of the paper's data.
SUBJECTS = {"hiv-fmri": (50, 17), "hiv-dti": (56, 20), "bp-fmri": (52, 45), "adhd-fmri": (280, 488)}
#: Runs of results.py by name.
SOURCES = {
    "hiv_dti": Source("hiv-dti", True, "the paper's subjects and folds"),
    "hiv_fmri_34": Source("hiv-fmri", False, "a balanced half of the paper's subjects, other folds"),
    "hiv_fmri": Source("hiv-fmri", True, "the paper's subjects and folds"),
    "peking_1": Source("adhd-fmri", False, "one site, other graphs: binary and sparse"),
    "bp_fmri": Source("bp-fmri", True, "the paper's subjects and folds"),
    "adhd_fmri": Source("adhd-fmri", True, "the paper's subjects and folds"),
}


def constant_answer(counts: tuple[int, ...]) -> Constant:
    """Accuracy and weighted F1 of always answering the largest class, whose F1 is 2p/(1 + p); that of others is 0."""
    share = max(counts) / sum(counts)
    return Constant(share, share * 2 * share / (1 + share))


def p_value(accuracy: float, counts: tuple[int, ...]) -> float:
    """The probability that as many answers or more are right by chance, if each is with the largest class's share."""
    n = sum(counts)
    return float(binomtest(round(accuracy * n), n, max(counts) / n, alternative="greater").pvalue)


def face_value() -> str:
    """Table 1 of the paper beside the constant predictor, if every figure is taken as printed."""
    header = ["dataset", "subjects", "constant: accuracy", "weighted F1", "Iso-CapsNet: accuracy", "F1"]
    header += ["correct predictions beyond the constant", "p", "methods above the constant"]
    lines = [table_row(header), table_row(["---"] * len(header))]
    for dataset, counts in SUBJECTS.items():
        figures, constant, n = paper_figures(dataset, "isocapsnet"), constant_answer(counts), sum(counts)
        beyond = round(figures["accuracy"] * n) - max(counts)
        above = sum(accuracy > constant.accuracy for accuracy in PAPER_TABLE_1[dataset]["accuracy"])
        cells = [dataset, f"{n} ({counts[0]}/{counts[1]})", number(constant.accuracy), number(constant.weighted_f1)]
        cells += [number(figures["accuracy"]), number(figures["f1"]), f"{beyond:+d} of {n}"]
        lines.append(table_row([*cells, f"{p_value(figures['accuracy'], counts):.3f}", f"{above} of 13"]))
    return "\n".join(lines)


def table_2() -> str:
    """Table 2 of the paper as numbers of subjects of one fold."""
    positive, negative = 17, 6
    answers = {"always positive": constant_answer((positive, negative)), "always negative": _minority(6, 23)}
    header = ["k", "accuracy", "F1", "correct of 23 subjects", "equal to"]
    lines = [table_row(header), table_row(["---"] * len(header))]
    for k, (accuracy, f1, _) in PAPER_TABLE_2.items():
        right = round(accuracy * 23)
        whole = f"{right}" if abs(right / 23 - accuracy) < 0.0006 else "none: a mean of three folds"
        same = [name for name, one in answers.items() if abs(one[0] - accuracy) < 0.0006 and abs(one[1] - f1) < 0.0006]
        lines.append(table_row([str(k), number(accuracy), number(f1), whole, same[0] if same else "-"]))
    return "\n".join(lines)


def _minority(count: int, total: int) -> Constant:
    share = count / total
    return Constant(share, share * 2 * share / (1 + share))


def comparison(content: dict[str, Any], source: Source) -> str:
    """The paper's figures of each method beside ours, and whether they are in our interval."""
    by_name = {method["method"]: method["metrics"] for method in content["methods"]}
    constant = by_name["constant"]
    header = [
        "method",
        "paper: accuracy",
        "ours [95 %]",
        "paper: F1",
        "ours [95 %]",
        "paper's accuracy in our interval",
    ]
    lines, compared = [table_row(header), table_row(["---"] * len(header))], []
    for method, metrics in by_name.items():
        figures = paper_figures(source.dataset, method)
        accuracy, f1 = metrics["accuracy"], metrics["weighted_f1"]
        inside = "-"
        if figures and None not in accuracy.values():
            inside = "yes" if accuracy["low"] <= figures["accuracy"] <= accuracy["high"] else "no"
            compared.append((method, figures["accuracy"], accuracy["low"], accuracy["high"]))
        cells = [f"`{method}`", number(figures.get("accuracy")), _interval(accuracy), number(figures.get("f1"))]
        lines.append(table_row([*cells, _interval(f1), inside]))
    classes = ", ".join(f"{label}: {count}" for label, count in content["passport"]["classes"].items())
    what = (
        f"{'The same data' if source.is_same else '**Different data**'}: {source.what}; "
        f"{content['passport']['n_graphs']} subjects ({classes}). The constant predictor has an accuracy of "
        f"{number(constant['accuracy']['mean'])} and a weighted F1 of {number(constant['weighted_f1']['mean'])}."
    )
    return "\n".join([what, "", f"```\n{content['command']}\n```", "", *lines, "", paragraph(what_follows(compared))])


def what_follows(compared: Iterable[tuple[str, float, float, float]]) -> str:
    """The methods whose accuracy in the paper is outside our interval, from method, accuracy, and bounds of it."""
    rows = list(compared)
    if not rows:
        return ""
    above = [f"`{method}`" for method, accuracy, _, high in rows if accuracy > high]
    below = [f"`{method}`" for method, accuracy, low, _ in rows if accuracy < low]
    widths = sorted(number(high - low, 2) for *_, low, high in rows)
    width = widths[0] if widths[0] == widths[-1] else f"{widths[0]} to {widths[-1]}"
    parts = [f"above it for {', '.join(above)}"] * bool(above) + [f"below it for {', '.join(below)}"] * bool(below)
    if parts:
        n_outside = len(above) + len(below)
        start = f"The paper's accuracy is outside our interval in {n_outside} of {len(rows)} rows: {'; '.join(parts)}."
    else:
        start = f"The paper's accuracy is in our interval in all {len(rows)} rows."
    return f"{start} Our intervals are {width} wide, so a figure inside them is weak evidence."


def _interval(interval: dict[str, float]) -> str:
    return f"{number(interval['mean'])} [{number(interval['low'])}, {number(interval['high'])}]"


def write(page: Path, name: str, folder: Path) -> None:
    """Write the section of a run into the page; runs without figures in the paper have none."""
    text = page.read_text() if page.exists() else "# Do the paper's figures hold?\n"
    if name in SOURCES:
        content = json.loads((folder / "results.json").read_text())
        text = put_section(text, name, comparison(content, SOURCES[name]))
    text = put_section(text, "face_value", face_value())
    page.write_text(put_section(text, "table_2", table_2()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/published.md"))
    write(parser.parse_args().out, "", Path())


if __name__ == "__main__":
    main()
