"""Do the cards of motifs show what was planted, and where? ``python -m benchmarks.recovery``.

Each row is the motif form of Iso-CapsNet on planted graphs, cross-validated and explained on held-out graphs. Patterns
have 5 nodes: of 32 random templates with 4 nodes the best resembles any pattern.

- learned, card: correlation with a planted pattern in the best order of nodes, of the best learned template and of the
  pattern on the first card of the fit alone; lowest over fits. "above" counts fits above the null: the 99th percentile
  of the best correlation of as many random templates with any of the planted patterns.
- precision, recall: of the nodes of held-out graphs. A graph that is wrongly called a carrier has no true node, and a
  carrier that is missed has no node found.
- carriers: share of the class with the pattern that is called a carrier, beside the true share; false: of the others.
- shape, stable: the card of all fits of a dataset: similarity of shapes between fits, and how many are called stable.
"""

import argparse
import warnings
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from isocapsnet import IsoCapsNetClassifier, make_planted_graphs
from isocapsnet.datasets.synthetic import PlantedGraphs
from isocapsnet.explanation import combine_motifs, explain_fit

SIZE, N_MOTIFS, N_DRAWS = 5, 32, 1000
#: Row to what is planted.
ROWS: dict[str, dict[str, Any]] = {
    "motif": {"effect": "motif"},
    "free wiring": {"effect": "wiring", "placement": "free"},
    "free motif, prevalence .7": {"effect": "motif", "placement": "free", "prevalence": 0.7},
    "no pattern": {"effect": "motif"},
}
COLUMNS = (
    "AUC", "learned", "above", "card", "above", "null", "precision", "recall", "carriers", "true", "false", "shape",
    "stable", "fits",
)  # fmt: skip


def correlations(matrices: NDArray[Any], pattern: NDArray[Any]) -> NDArray[np.float64]:
    """Correlation of the edges of matrices ``(n, k, k)`` with those of a pattern, in the best order of nodes."""
    rows, columns = np.triu_indices(len(pattern), k=1)
    orders = np.array(list(permutations(range(len(pattern)))))
    turned = pattern[orders[:, rows], orders[:, columns]]
    edges = (matrices + matrices.swapaxes(1, 2))[:, rows, columns]
    units = [part - part.mean(axis=1, keepdims=True) for part in (edges, turned)]
    units = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in units]
    return np.asarray((units[0] @ units[1].T).max(axis=1))


def null_quantile(patterns: list[NDArray[Any]]) -> float:
    """The 99th percentile of the best correlation, with any of the patterns, of as many random templates as motifs."""
    templates = np.random.default_rng(0).standard_normal((N_DRAWS * N_MOTIFS, SIZE, SIZE))
    best = np.max([correlations(templates, pattern) for pattern in patterns], axis=0)
    return float(np.quantile(best.reshape(N_DRAWS, N_MOTIFS).max(axis=1), 0.99))


def make_data(row: str, seed: int) -> tuple[PlantedGraphs, NDArray[np.int64]]:
    """Graphs and labels; without a pattern those of class 0, with random labels."""
    n_graphs = 480 if row == "no pattern" else 240
    planted = make_planted_graphs(n_graphs, 24, kernel_size=SIZE, random_state=seed, **ROWS[row])
    if row != "no pattern":
        return planted, planted.labels
    without = planted.labels == 0
    graphs, places = planted.graphs[without], tuple(part[without] for part in planted.occurrences)
    labels = np.random.default_rng(seed).permutation(np.arange(len(graphs)) % 2)
    return planted._replace(graphs=graphs, occurrences=places), labels


def measure(row: str, seed: int, n_folds: int) -> tuple[list[dict[str, float]], dict[str, float]]:
    """What each fit recovers, and the card of all fits together."""
    planted, y = make_data(row, seed)
    X, patterns = planted.graphs, [truth.pattern for truth in planted.truth]
    null = null_quantile(patterns)
    explanations, tests, measured = [], [], []
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(y, y):
        model = IsoCapsNetClassifier(
            windows="neighborhood", n_motifs=N_MOTIFS, motif_size=SIZE, calibrate=False, random_state=seed + len(tests)
        ).fit(X[train], y[train])
        explanations.append(explain_fit(model, X[test], y[test]))
        tests.append(test)
        card = combine_motifs(explanations[-1:], tests[-1:])[0]
        on_card = [float(correlations(np.array([card.matrix]), pattern)[0]) for pattern in patterns]
        shown = int(np.argmax(on_card))
        nodes = {int(carrier.subject.split()[1]) - 1: set(carrier.nodes) for carrier in card.carriers}
        places = {i: set(planted.occurrences[shown][i]) for i in test if planted.occurrences[shown][i, 0] >= 0}
        hits = sum(len(nodes[i] & places[i]) for i in nodes.keys() & places.keys())
        carrying = next((label for label in (0, 1) if any(y[i] == label for i in places)), 1)
        own, other = (y[test] == carrying), (y[test] != carrying)
        is_called, is_true = (np.isin(test, list(part)) for part in (nodes, places))
        measured.append(
            {
                "AUC": float(roc_auc_score(y[test], model.predict_proba(X[test])[:, 1])),
                "learned": max(float(correlations(model.motifs_, pattern).max()) for pattern in patterns),
                "card": on_card[shown],
                "null": null,
                "precision": hits / (SIZE * len(nodes)) if nodes else np.nan,
                "recall": hits / (SIZE * len(places)) if places else np.nan,
                "carriers": float(is_called[own].mean()),
                "true": float(is_true[own].mean()),
                "false": float(is_called[other].mean()),
            }
        )
    card = combine_motifs(explanations, tests)[0]
    shape = np.nan if card.shape is None else card.shape.value
    return measured, {"shape": shape, "stable": float(card.verdict == "stable")}


def main() -> Iterator[str]:
    """Yield one line per row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=";".join(ROWS), help="separated by semicolons")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folds", type=int, default=3)
    options = parser.parse_args()
    yield f"{'planted':<27}" + "".join(f"{name:>10}" for name in COLUMNS)
    for row in options.rows.split(";"):
        runs = [measure(row, seed, options.folds) for seed in range(options.seeds)]
        fits = [fit for fits, _ in runs for fit in fits]
        mean = {name: float(np.mean([fit[name] for fit in fits])) for name in fits[0]}
        cells = [f"{mean['AUC']:.3f}"]
        for name in ("learned", "card"):
            cells += [f"{min(fit[name] for fit in fits):.3f}", f"{sum(fit[name] > fit['null'] for fit in fits)}"]
        rest = ("null", "precision", "recall", "carriers", "true", "false")
        cells += [f"{mean[name]:.3f}" for name in rest]
        cells.append(f"{np.mean([card['shape'] for _, card in runs]):.3f}")
        cells.append(f"{sum(card['stable'] for _, card in runs):.0f} of {len(runs)}")
        yield f"{row:<27}" + "".join(f"{cell:>10}" for cell in [*cells, str(len(fits))])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for line in main():
        print(line, flush=True)
