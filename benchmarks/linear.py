"""Which linear model is the strongest: the candidates for `linear`, and `linear` before and after its last change.

    python benchmarks/linear.py abide-nyu ages-3 ages-4 diagnosis-ages planted-2 planted-3 planted-4 planted-4-wide
    python benchmarks/linear.py --before-after abide-nyu ages-4 planted-3 planted-4 hiv-dti hiv-fmri-34 peking-1

Without an option, all candidates are compared inside the three training sets of ABIDE-NYU of seed 0, so that nothing is
chosen on test data, or on four planted datasets. With `--before-after`, test folds show what the change did: five
stratified 3-fold splits, or ten planted datasets. Every candidate gets the same folds. `ages-3` and `ages-4` are
the subjects of ABIDE-NYU in three and four unbalanced groups of age, `diagnosis-ages` in two groups of each diagnosis.
A cell has the mean ROC AUC, in brackets its difference to the first line with the standard error over folds, and the
Brier score. Folds share subjects, so the standard errors are too small.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from choices import inner_folds
from isocapsnet import load_graphs
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.models import _logistic
from isocapsnet.models._base import edge_vectors
from isocapsnet.models._calibration import fit_slope_and_offset
from isocapsnet.models._logistic import Logistic, fit_calibrated, fit_logistic, selection_folds

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

AGES = {"ages-3": [9, 20], "ages-4": [9, 14, 20], "diagnosis-ages": [18]}
# Sizes of the classes, nodes whose connections differ, and how much.
PLANTED = {
    "planted-2": ((90, 25), 6, 0.3),
    "planted-3": ((100, 50, 25), 6, 0.25),
    "planted-4": ((113, 45, 23, 14), 6, 0.25),
    "planted-4-wide": ((113, 45, 23, 14), 60, 0.07),
}


def make_correlations(sizes: tuple[int, ...], n_changed: int, strength: float, seed: int) -> tuple[Array, Codes]:
    """Edges of correlation matrices (60 nodes, 100 time points, 12 sources). In each class but the first, some nodes
    draw on the sources differently."""
    rng = np.random.default_rng(seed)
    mixing = np.repeat(rng.normal(size=(1, 60, 12)), len(sizes), axis=0)
    for code in range(1, len(sizes)):
        nodes = rng.choice(60, n_changed, replace=False)
        mixing[code, nodes] += strength * rng.normal(size=(n_changed, 12))
    codes = np.repeat(np.arange(len(sizes)), sizes)
    edges = []
    for code in codes:
        own = mixing[code] + 0.6 * rng.normal(size=(60, 12))
        series = rng.normal(size=(100, 12)) @ own.T + 2 * rng.normal(size=(100, 60))
        edges.append(np.corrcoef(series.T)[np.triu_indices(60, 1)])
    return np.array(edges), codes


def parts(name: str, inside: bool) -> Iterator[tuple[Array, Codes, Codes, Codes, int]]:
    """Edges and codes, indices of the training and the test part, and a seed."""
    if name in PLANTED:
        for seed in range(4 if inside else 10):
            edges, codes = make_correlations(*PLANTED[name], seed)
            for train, test in StratifiedKFold(3, shuffle=True, random_state=seed).split(edges, codes):
                yield edges, codes, train, test, seed
        return
    data = load_graphs("abide-nyu" if name in AGES else name)
    edges = edge_vectors(data.X)
    codes = np.unique(data.labels, return_inverse=True)[1]
    if name in AGES:
        ages = np.digitize(data.covariates["age"].to_numpy(), AGES[name])
        codes = 2 * codes + ages if name == "diagnosis-ages" else ages
    if inside:
        for seed, (train, test) in enumerate(inner_folds(edges, codes)):
            yield edges, codes, train, test, seed
        return
    for seed in range(5):
        for train, test in StratifiedKFold(3, shuffle=True, random_state=seed).split(edges, codes):
            yield edges, codes, train, test, seed


def one_vs_rest(fit: Callable[[Codes, Array], Array], codes: Codes, weights: Array) -> Array:
    """Coefficients ``(n_classes, n_features)`` of a machine for each class; of one machine if there are two classes."""
    n_classes = len(weights)
    machines = {}
    for code in range(n_classes) if n_classes > 2 else [1]:
        positive = (codes == code).astype(int)
        balanced = len(codes) / (2 * np.bincount(positive))[positive]
        machines[code] = fit(positive, np.ones(len(codes)) if np.all(weights == 1) else balanced)
    return np.stack(list(machines.values())) if n_classes > 2 else np.stack([-machines[1], machines[1]])


def logistic(features: Array, codes: Codes, weights: Array, C: float) -> Array:
    def fit(positive: Codes, each: Array) -> Array:
        model = LogisticRegression(C=C, tol=1e-5, max_iter=5000).fit(features, positive, sample_weight=each)
        return np.ravel(model.coef_)

    return one_vs_rest(fit, codes, weights)


def ridge(features: Array, codes: Codes, weights: Array, alpha: float) -> Array:
    coef = RidgeClassifier(alpha=alpha).fit(features, codes, sample_weight=weights[codes]).coef_
    return np.vstack([-coef, coef]) if len(weights) == 2 else coef


def svm(features: Array, codes: Codes, weights: Array, C: float) -> Array:
    kernel = features @ features.T

    def fit(positive: Codes, each: Array) -> Array:
        model = SVC(kernel="precomputed", C=C).fit(kernel, positive, sample_weight=each)
        return model.dual_coef_[0] @ features[model.support_]

    return one_vs_rest(fit, codes, weights)


#: Ranks by the scores of each class alone; it has no probabilities.
HEAVY = "heavily penalised ridge"
#: Predicts the class frequencies of the training data.
CONSTANT = "constant"
OTHERS = {
    "logistic, one-vs-rest": (logistic, 10.0 ** np.arange(-3, 4)),
    "ridge": (ridge, 10.0 ** np.arange(-1, 4.1, 0.5)),
    "linear SVM": (svm, 10.0 ** np.arange(-1, 1.1, 0.25)),
}


def search(
    family: Callable[..., Array], grid: Array, features: Array, codes: Codes, *, balanced: bool, seed: int
) -> Logistic:
    """The strength with the least log-loss over inner folds, after calibration on these."""
    n_classes = codes.max() + 1

    def fit(part: Codes, strength: float) -> Array:
        counts = np.bincount(codes[part])
        weights = len(part) / (n_classes * counts) if balanced else np.ones(n_classes)
        return family(features[part], codes[part], weights, strength)

    fits = []
    for strength in grid:
        scores = np.zeros((len(codes), n_classes))
        for train, held_out in selection_folds(codes, seed):
            scores[held_out] = features[held_out] @ fit(train, strength).T
        slope, offset = fit_slope_and_offset(scores, codes, np.ones(n_classes))
        loss = -log_softmax(slope * scores + offset, axis=1)[np.arange(len(codes)), codes].sum()
        fits.append((loss, strength, slope, offset))
    loss, strength, slope, offset = min(fits, key=lambda item: item[0])
    return Logistic(slope * fit(np.arange(len(codes)), strength), offset, strength, loss)


def candidates(features: Array, codes: Codes, seed: int) -> Iterator[tuple[str, Logistic]]:
    """Every candidate, fitted."""
    counts = np.bincount(codes)
    plain = np.ones(len(counts))
    folds = selection_folds(codes, seed)
    yield "logistic, not calibrated (before)", fit_logistic(features, codes, plain, seed=seed)
    for label, weights in {"": plain, ", balanced": len(codes) / (len(counts) * counts)}.items():
        fit, scores = _logistic._search(features, codes, weights, _logistic.C_GRID, folds)
        yield f"logistic{label}", _logistic._calibrate(fit, scores, codes, plain, folds)
    yield "**logistic, weights chosen (`linear`)**", fit_calibrated(features, codes, plain, seed=seed)
    half_decades = tuple(10.0 ** np.arange(-4, 5.1, 0.5))
    yield "the same, grid of half decades", fit_calibrated(features, codes, plain, seed=seed, grid=half_decades)
    for name, (family, grid) in OTHERS.items():
        if len(counts) > 2 or family is not logistic:
            yield name, search(family, grid, features, codes, balanced=False, seed=seed)
            yield f"{name}, balanced", search(family, grid, features, codes, balanced=True, seed=seed)


def before_and_after(features: Array, codes: Codes, seed: int) -> Iterator[tuple[str, Logistic]]:
    for name, fit in {"before": fit_logistic, "after": fit_calibrated}.items():
        yield name, fit(features, codes, np.ones(codes.max() + 1), seed=seed)
    frequencies = np.bincount(codes) / len(codes)
    yield CONSTANT, Logistic(np.zeros((len(frequencies), features.shape[1])), np.log(frequencies), 0.0)
    yield HEAVY, search(ridge, np.array([1e3]), features, codes, balanced=False, seed=seed)


def compare(name: str, models: Callable[..., Iterator[tuple[str, Logistic]]], *, inside: bool) -> dict[str, Array]:
    """ROC AUC and Brier score of each model, then the difference of its ROC AUC to the first, with standard error."""
    scores: dict[str, list[list[float]]] = {}
    for edges, codes, train, test, seed in parts(name, inside):
        scaler = StandardScaler().fit(edges[train])
        span = _logistic._Span.of(scaler.transform(edges[train]))
        rotated = scaler.transform(edges[test]) / span.scale
        rotated = rotated if span.rotation is None else rotated @ span.rotation.T
        for model, fit in models(span.rotated, codes[train], seed):
            class_scores = rotated @ fit.coef.T + fit.intercept
            proba = softmax(class_scores, axis=1)
            area = METRICS["roc_auc"].function(codes[test], class_scores if model == HEAVY else proba)
            scores.setdefault(model, []).append([area, METRICS["brier"].function(codes[test], proba)])
    first = np.array(next(iter(scores.values())))[:, 0]
    rows = {}
    for model, values in scores.items():
        differences = np.array(values)[:, 0] - first
        error = differences.std(ddof=1) / np.sqrt(len(differences))
        rows[model] = np.array([*np.mean(values, axis=0), differences.mean(), error])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--before-after", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    compared = before_and_after if arguments.before_after else candidates
    table: dict[str, dict[str, str]] = {}
    for name in arguments.data:
        started = time.process_time()
        for model, scores in compare(name, compared, inside=not arguments.before_after).items():
            area, brier, difference, error = scores
            cell = f"{area:.3f}" + ("" if model == CONSTANT else f" ({difference:+.3f} ± {error:.3f})")
            cell += "" if model == HEAVY else f", {brier:.3f}"
            table.setdefault(model, {})[name] = cell
            print(name, model, cell, flush=True)
        print(f"{name}: {time.process_time() - started:.0f} CPU seconds", flush=True)
    print(f"\n| model | {' | '.join(arguments.data)} |\n{'|---' * (len(arguments.data) + 1)}|")
    for model, cells in table.items():
        print(f"| {model} | {' | '.join(cells.get(name, '–') for name in arguments.data)} |")


if __name__ == "__main__":
    main()
