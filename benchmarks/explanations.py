"""Do explanations find what was planted, and nothing where nothing is? ``python -m benchmarks.explanations``.

Each row is a method on planted graphs, cross-validated and explained on held-out graphs. "nodes" and "edges" are the
precision at k of the planted nodes and edges: from the evidence cards' regions, and from gradients. "untrained" is the
rank correlation of gradients with those of a network before learning. With shuffled labels nothing is there to find,
and "stable" must be 0.
"""

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from tests.explanation.recovery import edge_precision, node_precision, region_shares

from isocapsnet import MODELS, make_planted_graphs
from isocapsnet.explanation.attribution import sum_over_regions
from isocapsnet.explanation.combination import combine
from isocapsnet.explanation.fits import FitExplanation, explain_fit

SIGNAL_TO_NOISE = {"existence": 5.0, "orientation": 3.0}
COLUMNS = ("AUC", "card nodes", "gradient nodes", "gradient edges", "untrained", "stable", "runs")


def explain_run(method: str, effect: str, seed: int, n_folds: int, n_nodes: int, shuffled: bool) -> tuple[float, ...]:
    """AUC, precision of card nodes, of gradient nodes and edges, randomization check, share of stable cards."""
    planted = make_planted_graphs(
        240, n_nodes, effect=effect, signal_to_noise=SIGNAL_TO_NOISE[effect], random_state=seed
    )
    X, y = planted.graphs, planted.labels
    if shuffled:
        y = np.random.default_rng(seed).permutation(y)
    explanations: list[FitExplanation] = []
    tests, areas = [], []
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(y, y):
        one_form = {"windows": "contiguous"} if method == "isocapsnet" else {}  # benchmarks.recovery has the other
        model = MODELS[method](**one_form, random_state=seed + len(tests)).fit(X[train], y[train])
        explanations.append(explain_fit(model, X[test], y[test]))
        areas.append(roc_auc_score(y[test], model.predict_proba(X[test])[:, 1]))
        tests.append(test)
    cards = combine(explanations, tests)
    nodes = [pattern.nodes for pattern in planted.truth]
    edges = np.mean([explanation.edges for explanation in explanations], axis=0)
    return (
        float(np.mean(areas)),
        float(np.mean([node_precision(region_shares(card, n_nodes), nodes) for card in cards])) if cards else np.nan,
        node_precision(sum_over_regions(edges), nodes),
        edge_precision(edges, nodes),
        float(np.mean([explanation.randomization for explanation in explanations])),
        float(np.mean([card.verdict == "stable" for card in cards])) if cards else np.nan,
    )


def main() -> Iterator[str]:
    """Yield one line per method, effect and whether labels are true."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="isocapsnet,isonn,fastisonn")
    parser.add_argument("--effects", default="existence,orientation")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=24)
    parser.add_argument("--labels", default="true,shuffled")
    options = parser.parse_args()
    yield f"{'method':<12}{'effect':<13}{'labels':<10}" + "".join(f"{name:>16}" for name in COLUMNS)
    for labels in options.labels.split(","):
        for effect in options.effects.split(","):
            for method in options.methods.split(","):
                runs = [
                    explain_run(method, effect, seed, options.folds, options.nodes, labels == "shuffled")
                    for seed in range(options.seeds)
                ]
                values = [*np.mean(runs, axis=0), len(runs)]
                yield f"{method:<12}{effect:<13}{labels:<10}" + "".join(f"{value:>16.3g}" for value in values)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # a network that finds nothing in shuffled labels says so, as it should
    for line in main():
        print(line, flush=True)
