"""How well Iso-CapsNet finds patterns with and without a fixed place: the harder cases beside those of capabilities.py.

    python benchmarks/motifs.py --out motifs                           # Iso-CapsNet alone, nested protocol, 5 seeds
    python benchmarks/motifs.py --out motifs --methods linear,gin      # the same folds, other methods
    python benchmarks/motifs.py --out motifs --cases "mixed;null" --seeds 40 --protocol paper

Every case is a number of datasets (one per seed) of three folds each. One line is printed for each dataset, as soon as
it is finished. A run that was interrupted goes on with the same command. The table has the mean ROC AUC over all folds,
that of the worst dataset, and how many datasets were called above chance.
"""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from capabilities import benchmark_planted
from isocapsnet import InputError, make_planted_graphs
from isocapsnet.evaluation.statistics import LEVEL

#: Arguments of make_planted_graphs beside those of its defaults: 240 graphs, 24 nodes, patterns of 4 nodes, SNR 5.
CASES: dict[str, dict[str, Any]] = {
    "existence": {"effect": "existence"},
    "orientation": {"effect": "orientation"},
    "motif": {"effect": "motif"},
    "wiring": {"effect": "wiring"},
    "free motif": {"effect": "motif", "placement": "free"},
    "free wiring": {"effect": "wiring", "placement": "free"},
    "motif, 60 nodes": {"effect": "motif", "n_nodes": 60},
    "free wiring, 60 nodes": {"effect": "wiring", "placement": "free", "n_nodes": 60},
    "wiring, 120 graphs": {"effect": "wiring", "n_graphs": 120},
    "motif, k = 5": {"effect": "motif", "kernel_size": 5},
    "free wiring, k = 5": {"effect": "wiring", "placement": "free", "kernel_size": 5},
    "wiring, SNR 3": {"effect": "wiring", "signal_to_noise": 3.0},
    "mixed": {"effect": ("existence", "motif"), "prevalence": 0.5, "placement": "free"},
    "two motifs, prevalence .7": {"effect": "motif", "placement": "free", "n_patterns": 2, "prevalence": 0.7},
    "null": {"effect": "null"},
}


def run(task: tuple[str, int, argparse.Namespace]) -> tuple[str, int, dict[str, tuple[list[float], bool]]]:
    """ROC AUC of each fold and whether the mean is above chance, by method."""
    case, seed, options = task
    planted = make_planted_graphs(random_state=seed, **CASES[case])
    results = benchmark_planted(planted, case, seed, options, jobs=1)
    rows = {}
    for row in results.summary.rows:
        if row.failed:
            raise InputError(f"{row.method} on {case}, seed {seed}: {row.verdict}.")
        rows[row.method] = ([fold["roc_auc"] for fold in row.scores.values()], row.p_chance <= LEVEL)
    return case, seed, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="isocapsnet")
    parser.add_argument("--cases", default=";".join(CASES), help="separated by semicolons (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="datasets per case (default: 5)")
    parser.add_argument("--protocol", choices=("paper", "nested"), default="nested")
    parser.add_argument("--out", type=Path, default=Path("isocapsnet-results/motifs"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="datasets at a time")
    options = parser.parse_args()
    tasks = [(case, seed, options) for seed, case in product(range(options.seeds), options.cases.split(";"))]
    table: dict[str, dict[str, list[tuple[list[float], bool]]]] = {case: {} for case in options.cases.split(";")}
    n_failed = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for future in as_completed(pool.submit(run, task) for task in tasks):
            try:
                case, seed, rows = future.result()
            except InputError as error:
                n_failed += 1
                print(error, file=sys.stderr, flush=True)
                continue
            for method, row in rows.items():
                table[case].setdefault(method, []).append(row)
            means = ", ".join(f"{method} {np.mean(folds):.3f}" for method, (folds, _) in rows.items())
            print(f"{case}, seed {seed}: {means}", flush=True)
    methods = list(dict.fromkeys(method for rows in table.values() for method in rows))
    print(f"\n| case | {' | '.join(methods)} |\n|{'---|' * (len(methods) + 1)}")
    for case, rows in table.items():
        print(f"| {case} | {' | '.join(describe(rows.get(method, [])) for method in methods)} |")
    sys.exit(n_failed > 0)


def describe(datasets: list[tuple[list[float], bool]]) -> str:
    """The mean over datasets, the worst of them, and how many are above chance."""
    if not datasets:
        return "–"
    means = [np.mean(folds) for folds, _ in datasets]
    return f"{np.mean(means):.3f} (worst {min(means):.3f}; {sum(above for _, above in datasets)} of {len(means)} above)"


if __name__ == "__main__":
    main()
