"""``docs/calibration.md`` from the figures in ``docs/calibration/*.json``; written by ``benchmarks/calibration.py``."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibration_methods import FIXED, METHODS, identify, measure_method
from calibration_tables import Count, is_exceeded, make_table, pooled, show_range, show_share, smallest_marked
from calibration_theory import describe_equivalence, show_factors

NEW, OLD = "corrected-z", "resampled-t"
#: Where the average of a rate is looked at: test folds with at least this many subjects of each class.
ENOUGH = 5
_AREAS = ("0.5", "0.65", "0.8", "0.95")

Row = Mapping[str, Any]

HEAD = """# Calibration of the verdicts

This page shows how often verdicts are wrong, how often they detect a true effect, and how often a 95 % interval
contains the true value. Every figure is a share of simulated datasets. The page is written by
`benchmarks/calibration.py` from `docs/calibration/*.json`; do not edit it.

```bash
python benchmarks/calibration.py ridge --jobs 16            # all cells below
python benchmarks/calibration.py gin isocapsnet --jobs 16   # six cells of 30-node graphs
python benchmarks/calibration.py linear --jobs 16
python benchmarks/calibration.py gin --cells repeated --datasets 500
python benchmarks/calibration.py page                       # this page
```

Every run gives the same figures: seeds are derived from the names of cells and the numbers of datasets. An interrupted
run continues. `corrected-z` is the default test, `resampled-t` is the one that other papers use (`--test
resampled-t`). Tests are at the 5 % level, one at a time, before Holm's adjustment.

A share of n datasets is uncertain. It is marked with **!**, and counted as "above .05", if it is above .05 by a
one-sided 99 % binomial bound: if a test that is wrong in 5 % of datasets would reach it with a probability below 1 %.
{marks} An unmarked share may still be above .05.
"""

RIDGE = """## Ridge regression

Features are Gaussian with five shared factors; the tests are called by the library's own functions, on the folds that
its protocol makes. Two equally good methods are ridge regressions on two blocks of 200 features that share half of
them. "False equivalent" is about two methods whose mean ROC AUC differs by exactly the margin. With the margin of the
library, 0.03, studies as small as these can show nothing, so the test is also tried with a margin of 0.1. The
difference to find is 0.1. A method is made worse by noise in its scores. This noise is either drawn anew in each
repeat, as after another random start of a network, or it lasts, as if the method could not see what the other one sees.
"Half of the fits fail" is about a method of which each fit, by chance, has either no noise or much of it, as if it had
not converged; it is compared with one that has the same mean ROC AUC and no such fits. Coverage is of the expected ROC
AUC at the training size of the cell, which is the mean over its datasets.
Of {n_cells} cells the protocol refuses {n_refused}.
"""


def write_page(folder: Path, tests: str) -> None:
    """Write ``calibration.md`` beside the folder of figures; ``tests`` is the digest of the present tests."""
    ridge = _read(folder, "ridge")
    methods = {name: _read(folder, name) for name in METHODS}
    marks = [f"{smallest_marked(n) / n:.3f} of {n}" for n in (100, 300, 500, 1000)]
    parts = [HEAD.format(marks=f"The smallest shares that are marked: {', '.join(marks)} datasets.")]
    cells = {name: row for name, row in ridge.items() if set(_AREAS) <= row.get("figures", {}).keys()}
    if cells:
        refused = {name: row["refused"] for name, row in ridge.items() if "refused" in row}
        parts.append(RIDGE.format(n_cells=len(ridge), n_refused=len(refused)))
        if n_earlier := sum(any(f["tests"] != tests for f in row["figures"].values()) for row in cells.values()):
            parts.append(
                f"The figures of {n_earlier} of {len(cells)} cells are of an earlier version of the tests; the first "
                "command above computes them again.\n"
            )
        parts += [show(cells) for show in (_findings, _levels, _coverage, _gain, _all_levels, _all_powers)]
        parts.append("### Cells that the protocol refuses\n\n" + "\n".join(f"- {n}: {r}" for n, r in refused.items()))
    figures = {name: measure_method(content, methods[FIXED]) for name, content in methods.items() if name != FIXED}
    if any(figures.values()):
        parts.append(_methods(figures, methods))
    (folder.parent / "calibration.md").write_text("\n".join(part.rstrip() + "\n" for part in parts), encoding="utf-8")


def _read(folder: Path, name: str) -> dict[str, Row]:
    path = folder / f"{name}.json"
    content: dict[str, Row] = json.loads(path.read_text()) if path.exists() else {}
    return content


# -- rates ------------------------------------------------------------------------------------------------------

#: Claims that are false in all datasets of a scenario, by title: the scenario and the claim.
FALSE = {
    "above chance, ROC AUC 0.5": ("0.5", "above_chance"),
    "different, both at 0.5": ("0.5", "different"),
    "different, both at 0.8": ("0.8", "different"),
    "different, both at 0.8, noise that lasts": ("lasting", "different"),
    "different, both at 0.8, half of the fits fail": ("failing", "different"),
    "equivalent, 0.03 apart at 0.8": ("margin", "equivalent"),
    "equivalent within ±0.1, 0.1 apart at 0.8": ("difference", "alike"),
}
#: Claims that are true.
TRUE = {
    "above chance, 0.65": ("0.65", "above_chance"),
    "above chance, 0.8": ("0.8", "above_chance"),
    "different, 0.1 apart": ("difference", "different"),
    "different, 0.1 apart, noise that lasts": ("lasting difference", "different"),
    "equivalent, both at 0.8": ("0.8", "equivalent"),
    "equivalent within ±0.1, both at 0.8": ("0.8", "alike"),
}
#: Claims that `resampled-t` does not make.
OF_NEW_TEST = ("equivalent", "alike")


def _count(row: Row, scenario: str, claim: str, test: str) -> Count:
    figures = row["figures"][scenario]
    return figures[test][claim], figures["n"]


def _levels(cells: Mapping[str, Row]) -> str:
    """False claims over all cells."""
    enough = [name for name, row in cells.items() if row["smallest"] >= ENOUGH]
    rows = []
    for title, (scenario, claim) in FALSE.items():
        for test in (NEW,) if claim in OF_NEW_TEST else (NEW, OLD):
            counts = {name: _count(row, scenario, claim, test) for name, row in cells.items()}
            worst = max(counts, key=lambda name: counts[name][0] / counts[name][1])
            rows.append(
                [
                    *(title, test, show_range(n for _, n in counts.values())),
                    *(f"{pooled(counts.values()):.4f}", f"{pooled(counts[n] for n in enough):.4f}"),
                    *(f"{show_share(counts[worst])} ({worst})", str(sum(map(is_exceeded, counts.values())))),
                ]
            )
    head = f"false claim|test|datasets per cell|all cells|test folds with {ENOUGH} or more of each class|highest|"
    head += "cells above .05 by the 99 % bound"
    return "### False claims\n\n" + make_table(head.split("|"), rows)


def _coverage(cells: Mapping[str, Row]) -> str:
    """Coverage of intervals over all cells."""
    rows = []
    for area in _AREAS:
        for test in (NEW, OLD):
            figures = [row["figures"][area] for row in cells.values()]
            shares = [figure[test]["covered"] / figure["n"] for figure in figures]
            true = [figure["area"] for figure in figures]
            low, high = sum(share < 0.92 for share in shares), sum(share > 0.99 for share in shares)
            points = sum(figure[test]["points"] for figure in figures)
            rows.append(
                [
                    *(area, f"{min(true):.2f} to {max(true):.2f}", test, show_range(figure["n"] for figure in figures)),
                    f"{np.mean(shares):.3f}",
                    *(f"{min(shares):.3f} to {max(shares):.3f}", str(low), str(high)),
                    *(f"{np.mean([figure[test]['width'] for figure in figures]):.2f}", str(points)),
                ]
            )
    head = "ROC AUC chosen (1 x 3)|ROC AUC of the cells|test|datasets per cell|mean coverage|over cells|"
    head += "cells below .92|cells above .99|mean width|intervals without width"
    return "### Coverage of 95 % intervals\n\n" + make_table(head.split("|"), rows) + "\n" + show_factors(cells, _AREAS)


def _gain(cells: Mapping[str, Row]) -> str:
    """Power of both tests, and in how many cells the new one has less."""
    rows = []
    for title, (scenario, claim) in TRUE.items():
        if claim in OF_NEW_TEST:
            continue
        held = [name for name, row in cells.items() if _holds_level(row, claim)]
        for where, names in (("all", list(cells)), ("where `resampled-t` is not above .05 by the 99 % bound", held)):
            counts = {test: [_count(cells[n], scenario, claim, test) for n in names] for test in (NEW, OLD)}
            gains = [_gain_of(*pair) for pair in zip(counts[NEW], counts[OLD], strict=True)]
            clearly = sum(_is_clearly_less(*pair) for pair in zip(counts[NEW], counts[OLD], strict=True))
            rows.append(
                [
                    *(title, f"{where} ({len(names)})", show_range(n for _, n in counts[NEW])),
                    *(f"{pooled(counts[OLD]):.3f}", f"{pooled(counts[NEW]):.3f}"),
                    *(f"{min(gains):+.3f}", f"{max(gains):+.3f}", str(sum(gain < 0 for gain in gains)), str(clearly)),
                ]
            )
    head = (
        f"true claim|cells|datasets per cell|{OLD}|{NEW}|smallest gain|largest gain|cells with less power|clearly less"
    )
    note = "Clearly less: by more than two standard errors of the difference of two independent shares.\n"
    return "### Power\n\n" + make_table(head.split("|"), rows) + "\n" + note


def _holds_level(row: Row, claim: str) -> bool:
    """Whether `resampled-t` is not above .05 in a cell by the 99 % bound, wherever the claim is false."""
    return not any(is_exceeded(_count(row, s, c, OLD)) for s, c in FALSE.values() if c == claim)


def _gain_of(new: Count, old: Count) -> float:
    return new[0] / new[1] - old[0] / old[1]


def _is_clearly_less(new: Count, old: Count) -> bool:
    variance = sum(k / n * (1 - k / n) / n for k, n in (new, old))
    return _gain_of(new, old) < -2 * float(np.sqrt(variance))


def _findings(cells: Mapping[str, Row]) -> str:
    """What the tables below show, in sentences."""
    lines = []
    for title, (scenario, claim) in FALSE.items():
        counts = [_count(row, scenario, claim, NEW) for row in cells.values()]
        over = Counter(row["scheme"] for row, count in zip(cells.values(), counts, strict=True) if is_exceeded(count))
        where = f": {', '.join(f'{n} with {scheme}' for scheme, n in over.items())} folds" if over else ""
        lines.append(
            f'False "{title}": {pooled(counts):.3f} of all datasets; above .05 by the 99 % bound in {over.total()} of '
            f"{len(cells)} cells ({show_range(n for _, n in counts)} datasets each){where}."
        )
    covered = [_count(row, area, "covered", NEW) for row in cells.values() for area in _AREAS]
    lines.append(
        f"Coverage is below .92 in {sum(hits / n < 0.92 for hits, n in covered)} and above .99, wider than needed, in "
        f"{sum(hits / n > 0.99 for hits, n in covered)} of {len(covered)} cells and areas."
    )
    for title, (scenario, claim) in TRUE.items():
        new = [_count(row, scenario, claim, NEW) for row in cells.values()]
        if claim == "alike":
            lines.append(f'True "{title}": {pooled(new):.3f} of all datasets.')
            continue
        old = [_count(row, scenario, claim, OLD) for row in cells.values()] if claim != "equivalent" else []
        if claim == "equivalent":
            largest = max(row["n_subjects"] for row in cells.values())
            some = [_count(row, scenario, claim, NEW) for row in cells.values() if row["n_subjects"] == largest]
            said = f'True "{title}" is said in {pooled(some):.3f} of the datasets of {largest} subjects.'
            lines.append(f"{said} {describe_equivalence(largest)}")
        else:
            less = [name for name, *pair in zip(cells, new, old, strict=True) if _is_clearly_less(*pair)]
            counted = [name for name in less if _holds_level(cells[name], claim)]
            where = f" It holds its level in {len(counted)} of these: {'; '.join(counted)}." if counted else ""
            if less and not counted:
                where = " It does not hold its level in any of these."
            lines.append(
                f'True "{title}": {pooled(new):.3f} of all datasets ({OLD}: {pooled(old):.3f}); clearly '
                f"less often than by {OLD} in {len(less)} of {len(cells)} cells.{where}"
            )
    return "### What it shows\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"


def _by_cell(
    title: str, cells: Mapping[str, Row], claims: Mapping[str, tuple[str, str]], show: Callable[[Count], str]
) -> str:
    """One row per cell: numbers of datasets, then each claim by the new test and by the old one."""
    kinds = {"without an effect": "0.5", "with an effect": "0.8"}
    kinds = {kind: area for kind, area in kinds.items() if (area == "0.5") in {s == "0.5" for s, _ in claims.values()}}
    columns = ["cell", *(f"datasets {kind}" for kind in kinds)]
    columns += [
        f"{title}: {NEW}" + ("" if claim in OF_NEW_TEST else f" / {OLD}") for title, (_, claim) in claims.items()
    ]
    rows = []
    for name, row in cells.items():
        pairs = [
            f"{show(_count(row, *claim, NEW))}"
            + ("" if claim[1] in OF_NEW_TEST else f" / {show(_count(row, *claim, OLD))}")
            for claim in claims.values()
        ]
        rows.append([name, *(str(row["figures"][area]["n"]) for area in kinds.values()), *pairs])
    return f"### {title}\n\n" + make_table(columns, rows)


def _all_levels(cells: Mapping[str, Row]) -> str:
    return _by_cell("False claims in each cell", cells, FALSE, show_share)


def _all_powers(cells: Mapping[str, Row]) -> str:
    return _by_cell("Power in each cell", cells, TRUE, lambda count: f"{count[0] / count[1]:.2f}")


# -- methods of the library -------------------------------------------------------------------------------------

METHODS_HEAD = """## The library's methods

Graphs of 30 nodes, noise with shared factors and no effect. `linear` chooses its penalty inside each training fold;
`gin` trains for 5 and `isocapsnet` for 3 epochs. "Different" is from a linear model with a fixed penalty, which is as
good as any method where there is nothing to find. All columns of a row are of the same
datasets; "datasets" is their number.
"""


def _methods(figures: Mapping[str, Mapping[str, Row]], contents: Mapping[str, Mapping[str, Row]]) -> str:
    rows, earlier = [], []
    for method, by_cell in figures.items():
        name, version, _ = next(iter(contents[method].values()))["method"] if by_cell else identify(method)
        if [name, version] != identify(method)[:2]:
            earlier.append(f"The figures of `{method}` are of version {version} of the method; it is now another one.")
        for title, row in by_cell.items():
            counts = [(row[test][claim], row["n"]) for claim in ("above_chance", "different") for test in (NEW, OLD)]
            covered = [f"{row[test]['covered'] / row['n']:.3f}" for test in (NEW, OLD)]
            rows.append([f"{method} (version {version})", title, str(row["n"]), *map(show_share, counts), *covered])
    columns = ["method", "cell", "datasets"]
    columns += [f"false {claim}, {test}" for claim in ('"above chance"', '"different"') for test in (NEW, OLD)]
    columns += [f"coverage of 0.5, {test}" for test in (NEW, OLD)]
    return "\n".join([METHODS_HEAD, *earlier, *([""] if earlier else []), make_table(columns, rows)])
