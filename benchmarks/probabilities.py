"""What calibration does to the probabilities of every network, and why it is done as it is.

Expected calibration error, Brier score and ROC AUC on held-out folds, before (softmax of the class scores) and after
(``predict_proba``), written into docs/probabilities.md. DATA is ``three-classes`` (planted patterns)
or a path or name of a dataset::

    python benchmarks/probabilities.py planted three-classes abide-nyu

How training graphs are best held out, compared without a look at any test fold: on other draws of the planted set, and
inside the training folds of a file::

    python benchmarks/probabilities.py planted abide-nyu --compare
"""

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.model_selection import StratifiedKFold

from isocapsnet import load_graphs, make_planted_graphs
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.models import MODELS
from isocapsnet.models._calibration import fit_temperature
from isocapsnet.models._network import NetworkClassifier
from paper_tables import put_section

NETWORKS = [
    name
    for name, model in MODELS.items()
    if issubclass(model, NetworkClassifier) and "calibrate" in model().get_params()
]
#: The embedded set; its own draw is the one of seed 0.
PLANTED: dict[str, Any] = {
    "n_graphs": 120, "n_nodes": 28, "n_patterns": 2, "effect": "existence", "signal_to_noise": 2.5, "n_sites": 3,
    "site_effect": 0.1, "missing_nodes": 1,
}  # fmt: skip
_DRAWS = (1, 2, 3, 4)
_BINS = 10

#: Way to hold out, as (folds, how many of them are held out): the fits take share * (folds - 1) / folds of a whole one.
WAYS = {"two halves": (2, 2), "one third": (3, 1), "three thirds": (3, 3)}


class Part(NamedTuple):
    """Graphs and labels with indices of those that train and those that test."""

    graphs: NDArray[Any]
    labels: NDArray[np.int64]
    train: NDArray[np.int64]
    test: NDArray[np.int64]


class Answers(NamedTuple):
    """Labels ``(n,)`` and probabilities ``(n, n_classes)`` of one test part."""

    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]


def calibration_error(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Expected calibration error: graphs in ten bins of equal width by the probability of the predicted class, mean
    over the graphs of the distance between a bin's share of right answers and its mean probability."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gaps = [np.abs(np.sum(right[bins == number] - confidence[bins == number])) for number in range(_BINS)]
    return float(np.sum(gaps) / len(labels))


def open_data(name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Graphs and codes of a dataset."""
    if name == "three-classes":
        draws = [make_planted_graphs(**{**PLANTED, "random_state": seed}) for seed in (0, 1, 2)]
        parts = [draw.graphs[draw.labels == (place > 0)] for place, draw in enumerate(draws)]
        return np.concatenate(parts), np.repeat(np.arange(3), [len(part) for part in parts])
    data = load_graphs(name)
    assert data.adjacency is not None
    return data.adjacency[data.is_labelled], data.labels[data.is_labelled]


def cut(graphs: NDArray[Any], labels: NDArray[np.int64], n_folds: int, seed: int) -> Iterator[Part]:
    """Stratified folds, each the test part once."""
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(graphs, labels):
        yield Part(graphs, labels, train, test)


def development_parts(name: str, n_folds: int) -> list[Part]:
    """Parts to choose by: of other draws of the planted set, or inside each training fold of a file."""
    if name == "planted":
        draws = {seed: make_planted_graphs(**PLANTED, random_state=seed) for seed in _DRAWS}
        return [part for seed, draw in draws.items() for part in cut(draw.graphs, draw.labels, n_folds, seed)]
    parts = []
    for number, (graphs, labels, train, _) in enumerate(cut(*open_data(name), n_folds, 0)):
        parts.append(next(cut(graphs[train], labels[train], n_folds, 100 + number)))
    return parts


def measure(method: str, parts: Sequence[Part]) -> dict[str, list[Answers]]:
    """Answers before and after calibration."""
    found: dict[str, list[Answers]] = {"before": [], "after": []}
    for seed, (graphs, labels, train, test) in enumerate(parts):
        model = MODELS[method](random_state=seed).fit(graphs[train], labels[train])
        assert isinstance(model, NetworkClassifier)
        found["before"].append(Answers(labels[test], softmax(model._scores(graphs[test]), axis=1)))
        found["after"].append(Answers(labels[test], model.predict_proba(graphs[test])))
    return found


def compare(method: str, parts: Sequence[Part]) -> dict[str, list[Answers]]:
    """Answers of one fit per part, with temperatures from graphs held out in each way."""
    found: dict[str, list[Answers]] = {name: [] for name in ("none", *WAYS)}
    for number, (graphs, labels, train, test) in enumerate(parts):

        def fit(index: NDArray[np.int64], seed: int, part: Part = parts[number]) -> NetworkClassifier:
            model = MODELS[method](random_state=seed, calibrate=False).fit(part.graphs[index], part.labels[index])
            assert isinstance(model, NetworkClassifier)
            return model

        held_out: dict[int, list[Answers]] = {}
        for n_folds in {n_folds for n_folds, _ in WAYS.values()}:
            folds = StratifiedKFold(n_folds, shuffle=True, random_state=number).split(train, labels[train])
            held_out[n_folds] = [
                Answers(labels[train[b]], fit(train[a], 1000 * n_folds + 10 * number + i)._scores(graphs[train[b]]))
                for i, (a, b) in enumerate(folds)
            ]
        scores = fit(train, number)._scores(graphs[test])
        temperatures = {"none": 1.0}
        for name, (n_folds, n_used) in WAYS.items():
            codes, of_codes = (np.concatenate(values) for values in zip(*held_out[n_folds][:n_used], strict=True))
            temperatures[name] = fit_temperature(of_codes, codes, np.ones(scores.shape[1]))
        for name, temperature in temperatures.items():
            found[name].append(Answers(labels[test], softmax(temperature * scores, axis=1)))
    return found


def summarise(answers: Sequence[Answers]) -> dict[str, float]:
    """Calibration error and Brier score over the graphs of all test parts, mean ROC AUC over the parts."""
    together = Answers(*(np.concatenate(values) for values in zip(*answers, strict=True)))
    return {
        "ECE": calibration_error(*together),
        "Brier": METRICS["brier"].function(*together),
        "AUC": float(np.mean([METRICS["roc_auc"](*part) for part in answers])),
    }


def table(found: dict[str, dict[str, dict[str, float]]], figures: Sequence[str]) -> list[str]:
    """Method to way to figures, as the rows of a table with their mean at the end."""
    ways = list(next(iter(found.values())))
    header = ["method", *(f"{figure}, {way}" for figure in figures for way in ways)]
    rows = {f"`{method}`": [by[way][figure] for figure in figures for way in ways] for method, by in found.items()}
    rows["mean"] = np.mean(list(rows.values()), axis=0).tolist()
    body = [[name, *(f"{value:.3f}" for value in values)] for name, values in rows.items()]
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *body)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--methods", default=",".join(NETWORKS))
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--compare", action="store_true", help="ways to hold out, on development data")
    parser.add_argument("--out", type=Path, default=Path("docs/probabilities.md"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.data:
        parts = (
            development_parts(name, options.folds) if options.compare else list(cut(*open_data(name), options.folds, 0))
        )
        found = {}
        for method in options.methods.split(","):
            start = time.perf_counter()
            answers = (compare if options.compare else measure)(method, parts)
            found[method] = {way: summarise(of_way) for way, of_way in answers.items()}
            print(name, method, f"{time.perf_counter() - start:.0f} s", found[method], flush=True)
        shown = "ABIDE-NYU" if "abide" in name else name
        key = f"{'compared on' if options.compare else 'calibrated'} {shown}"
        lines = table(found, ["ECE", "Brier"] if options.compare else ["ECE", "Brier", "AUC"])
        text = options.out.read_text() if options.out.exists() else "# Probabilities\n"
        options.out.write_text(put_section(text, key, "\n".join(lines)))


if __name__ == "__main__":
    main()
