"""What successive halving costs beside an exhaustive search, in simulated and in real inner scores.

The simulation draws true ROC AUCs of candidates (mean 0.7, standard deviation ``spread``; the defaults like the others,
or one standard deviation better). The score of a candidate in an inner fold is its true value plus an error with the
variance of Hanley and McNeil for so many subjects in two equal classes. A share of this variance (``correlation``) is
common to all candidates, since they are tested on the same subjects. The table has the expected true ROC AUC of the
chosen candidate minus that of exhaustive search, and the share of its fits. No test score is involved.

    python benchmarks/halving.py                       # the tables of docs/choices.md
    python benchmarks/halving.py --scores out.jsonl    # stored inner scores: one JSON line per inner fit
"""

import argparse
import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocapsnet.evaluation.search import SEARCHES, Search, race

N_FOLDS = 3
CENTRE = 0.7


class Cell(NamedTuple):
    """Assumptions of a simulation."""

    n_candidates: int
    spread: float
    default_is_better: bool
    correlation: float
    n_subjects: int


class Outcome(NamedTuple):
    """Halving minus exhaustive search: expected true score with its standard error; and the share of fits."""

    difference: float
    error: float
    fits: float


GRID = [
    Cell(*cell) for cell in itertools.product((2, 8), (0.005, 0.01, 0.02, 0.04), (False, True), (0.5, 0.8), (20, 40))
]


def hanley_mcneil(area: float, n_cases: int, n_controls: int) -> float:
    """The standard error of a ROC AUC (Hanley and McNeil, 1982)."""
    both_cases, both_controls = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area)
    variance += (n_cases - 1) * (both_cases - area**2) + (n_controls - 1) * (both_controls - area**2)
    return float(np.sqrt(variance / (n_cases * n_controls)))


def rerun(scores: NDArray[np.float64], sizes: list[int], search: Search) -> tuple[int, NDArray[np.float64]]:
    """What a search chooses in a whole table of scores ``(n_candidates, n_folds)``, and the scores it needed."""
    chosen, tried = race(search, len(scores), sizes, lambda fold, rows: scores[rows, fold])
    assert chosen is not None
    return chosen, tried


def count(tried: NDArray[np.float64]) -> int:
    """The fits behind the scores of a search."""
    return int((~np.isnan(tried)).sum())


def make_rule(kept: float, gap: float, lead: float) -> Search:
    """Halving with another share of settings that go on, and multiples of the margin to be dropped and to be chosen."""

    def keep(rows: list[int], means: NDArray[np.float64], margin: float) -> list[int]:
        others = sorted((row for row in rows[1:] if means[row] > means[0] - gap * margin), key=lambda row: -means[row])
        return [0, *others[: max(int(np.ceil(kept * len(rows))) - 1, 1)]]

    def choose(rows: list[int], means: NDArray[np.float64], margin: float) -> int:
        best = max(rows, key=lambda row: means[row])
        return best if means[best] > means[0] + lead * margin else 0

    return Search(keep, choose)


HALVING, EXHAUSTIVE = SEARCHES["halving"], SEARCHES["exhaustive"]
RULES = {
    "halving": HALVING,
    "no margins": make_rule(1 / 2, np.inf, 0),
    "ahead of the defaults to go on": make_rule(1 / 2, 0, 1),
    "twice the margins": make_rule(1 / 2, 2, 2),
    "two thirds go on": make_rule(2 / 3, 1, 1),
}


def simulate(cell: Cell, n_draws: int, seed: int = 0, rule: Search = HALVING) -> Outcome:
    """A rule and exhaustive search in the same tables of scores."""
    rng = np.random.default_rng(seed)
    error = hanley_mcneil(CENTRE, cell.n_subjects // 2, cell.n_subjects // 2) * np.sqrt(1 - cell.correlation)
    sizes = [cell.n_subjects] * N_FOLDS
    differences, fits = np.zeros(n_draws), 0
    for draw in range(n_draws):
        truth = rng.normal(CENTRE, cell.spread, cell.n_candidates)
        truth[0] += cell.spread * cell.default_is_better
        # What all candidates share moves all of them together and cannot change the choice, so it is left out.
        scores = truth[:, None] + error * rng.normal(size=(cell.n_candidates, N_FOLDS))
        chosen, tried = rerun(scores, sizes, rule)
        differences[draw] = truth[chosen] - truth[rerun(scores, sizes, EXHAUSTIVE)[0]]
        fits += count(tried)
    return Outcome(
        float(differences.mean()),
        float(differences.std() / np.sqrt(n_draws)),
        fits / (n_draws * cell.n_candidates * N_FOLDS),
    )


def simulation_table(n_draws: int) -> list[str]:
    """One line for each number of candidates and kind of defaults: the mean over cells, the worst cell, the fits."""
    results = {cell: simulate(cell, n_draws) for cell in GRID}
    lines = [
        "| candidates | defaults | difference of ROC AUC, mean | worst cell | share of fits |",
        "|---|---|---|---|---|",
    ]
    for n_candidates, better in itertools.product((2, 8), (False, True)):
        cells = {c: r for c, r in results.items() if (c.n_candidates, c.default_is_better) == (n_candidates, better)}
        worst, value = min(cells.items(), key=lambda item: item[1].difference)
        where = f"spread {worst.spread}, correlation {worst.correlation}, {worst.n_subjects} subjects"
        lines.append(
            f"| {n_candidates} | {'one sd better' if better else 'like the others'} "
            f"| {np.mean([r.difference for r in cells.values()]):+.4f} | {value.difference:+.4f} ({where}) "
            f"| {np.mean([r.fits for r in cells.values()]):.2f} |"
        )
    mean = np.mean([result.difference for result in results.values()])
    error = max(result.error for result in results.values())
    return [
        *lines,
        "",
        f"Over all {len(results)} cells: {mean:+.4f}; the standard error of a cell is at most {error:.4f}.",
    ]


def rule_table(n_draws: int) -> list[str]:
    """Other rules: mean and worst cell, and the share of fits with two and with eight candidates."""
    lines = [
        "| rule | difference, mean | worst cell | share of fits, 2 candidates | 8 candidates |",
        "|---|---|---|---|---|",
    ]
    for name, rule in RULES.items():
        results = {cell: simulate(cell, n_draws, rule=rule) for cell in GRID}
        differences = [result.difference for result in results.values()]
        fits = [np.mean([r.fits for cell, r in results.items() if cell.n_candidates == n]) for n in (2, 8)]
        lines.append(
            f"| {name} | {np.mean(differences):+.4f} | {min(differences):+.4f} | {fits[0]:.2f} | {fits[1]:.2f} |"
        )
    return lines


def stored_table(path: Path) -> list[str]:
    """Real inner scores: what remains of the differences between candidates, and what both searches choose.

    The score of a choice is that of inner folds which the choice did not see: each fold in turn is left out, the search
    runs on the others, and its choice is scored in the one left out.
    """
    tables: dict[tuple[str, int, int], dict[tuple[int, int], float]] = defaultdict(dict)
    n_candidates: dict[tuple[str, int, int], int] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        where = line["method"], line["repeat"], line["fold"]
        n_candidates[where] = line["n_candidates"]
        if line["inner"] is not None:
            tables[where][line["row"], line["inner"]] = line.get("auc", np.nan)
    lines = ["| method | searches | spread | noise | halving - exhaustive | defaults - exhaustive | share of fits |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for method in dict.fromkeys(name for name, *_ in tables):
        rows = []
        for where, table in tables.items():
            shape = n_candidates[where], N_FOLDS
            if where[0] == method and len(table) == np.prod(shape):
                rows.append(np.array([table[index] for index in np.ndindex(shape)]).reshape(shape))
        scored = [_leave_one_out(scores) for scores in rows if len(scores) > 1 and not np.isnan(scores).any()]
        if not scored:
            continue
        between, within = np.mean([_components(scores) for scores in rows], axis=0)
        halving, defaults, fits = np.mean(scored, axis=0)
        lines.append(
            f"| {method} | {len(scored)} | {np.sqrt(max(between, 0)):.3f} | {np.sqrt(within):.3f} "
            f"| {halving:+.4f} | {defaults:+.4f} | {fits:.2f} |"
        )
    return lines


def _components(scores: NDArray[np.float64]) -> tuple[float, float]:
    """The variance between candidates, and that of a score around candidate and fold (two-way analysis of variance)."""
    n_rows, n_folds = scores.shape
    rest = scores - scores.mean(axis=0) - scores.mean(axis=1, keepdims=True) + scores.mean()
    within = float((rest**2).sum() / ((n_rows - 1) * (n_folds - 1)))
    return float(scores.mean(axis=1).var(ddof=1)) - within / n_folds, within


def _leave_one_out(scores: NDArray[np.float64]) -> tuple[float, float, float]:
    """Halving and the defaults minus exhaustive search in the folds left out; and the share of fits with all folds."""
    n_folds = scores.shape[1]
    gains = []
    for out in range(n_folds):
        rest = np.delete(scores, out, axis=1)
        halving, exhaustive = (rerun(rest, [40] * (n_folds - 1), rule)[0] for rule in (HALVING, EXHAUSTIVE))
        gains.append([scores[halving, out] - scores[exhaustive, out], scores[0, out] - scores[exhaustive, out]])
    return (*np.mean(gains, axis=0), count(rerun(scores, [40] * n_folds, HALVING)[1]) / scores.size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000, help="simulated searches of each cell")
    parser.add_argument("--scores", type=Path, help="stored inner scores instead of simulated ones")
    options = parser.parse_args()
    if options.scores is not None:
        print("\n".join(stored_table(options.scores)))
    else:
        print("\n".join([*simulation_table(options.draws), "", *rule_table(options.draws)]))


if __name__ == "__main__":
    main()
