"""Who the subjects are, and what methods predict for each of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from isocapsnet._format import MISSING, p_value
from isocapsnet.evaluation.comparisons import CONSTANT, REFERENCE
from isocapsnet.report.content import Content, ReportedMethod, Subjects
from isocapsnet.report.tables import Cell, PageTable, cell

_LEVELS = 6
_METHODS = 4
#: A page lists at most this many subjects.
LISTED = 1000


@dataclass(frozen=True)
class SubjectPredictions:
    """What a method predicts for each graph of the dataset, over the repeats of the cross-validation.

    Attributes
    ----------
    probability : array (n_graphs,)
        Mean probability of the positive class, or of the graph's own class beyond two classes; NaN if not tested.
    n_tests, n_wrong : array (n_graphs,)
        How often the graph was predicted, and how often wrongly.
    """

    probability: NDArray[np.float64]
    n_tests: NDArray[np.int64]
    n_wrong: NDArray[np.int64]

    @property
    def always_wrong(self) -> NDArray[np.bool_]:
        """Whether every repeat predicted the graph wrongly ``(n_graphs,)``."""
        missed: NDArray[np.bool_] = (self.n_tests > 0) & (self.n_wrong == self.n_tests)
        return missed


def predict_subjects(method: ReportedMethod, n_graphs: int, positive: int) -> SubjectPredictions:
    """The predictions of a method by graph."""
    test, truth, probabilities = method.test, method.labels, method.probabilities
    shown = probabilities[:, positive] if probabilities.shape[1] == 2 else probabilities[np.arange(len(truth)), truth]
    n_tests = np.bincount(test, minlength=n_graphs)
    total = np.bincount(test, weights=shown, minlength=n_graphs)
    n_wrong = np.bincount(test, weights=probabilities.argmax(axis=1) != truth, minlength=n_graphs).astype(np.int64)
    probability = np.divide(total, n_tests, out=np.full(n_graphs, np.nan), where=n_tests > 0)
    return SubjectPredictions(probability, n_tests, n_wrong)


def choose_methods(content: Content) -> list[ReportedMethod]:
    """The methods whose predictions are shown: the best ones, and the reference."""
    ranked = [m for m in content.methods if m.fits and len(m.test) and m.label != CONSTANT and not m.row.covariates]
    beyond = [method for method in ranked[_METHODS:] if method.label == REFERENCE]
    return [*ranked[: _METHODS - len(beyond)], *beyond]


def predictions_table(content: Content) -> PageTable | None:
    """Every tested subject with the predictions of the best methods, those who are always missed first."""
    subjects, shown = content.subjects, choose_methods(content)
    if subjects is None or not shown:
        return None
    predictions = [predict_subjects(method, len(subjects.names), content.positive) for method in shown]
    missed = np.sum([part.always_wrong for part in predictions], axis=0)
    wrong = np.sum([part.n_wrong for part in predictions], axis=0)
    tested = np.flatnonzero(np.sum([part.n_tests for part in predictions], axis=0))
    order = tested[np.lexsort((-wrong[tested], -missed[tested]))][:LISTED]
    rows = [
        [
            Cell(str(subjects.names[graph])),
            Cell(content.classes[subjects.labels[graph]]),
            *([] if subjects.sites is None else [Cell(str(subjects.sites[graph]))]),
            *(_prediction_cell(part, graph) for part in predictions),
            Cell(_list_missed(shown, predictions, graph), int(missed[graph]), is_marked=bool(missed[graph])),
        ]
        for graph in order.tolist()
    ]
    is_binary = len(content.classes) == 2
    of = content.classes[content.positive] if is_binary else "own class"
    numeric = [*(f"{method.label}: P({of})" for method in shown), "wrong in every repeat"]
    columns = ["subject", "class", *([] if subjects.sites is None else ["site"]), *numeric]
    caption = f"{len(order)} test subjects" + (f" of {len(tested)}" if len(order) < len(tested) else "")
    return PageTable(
        "subject-predictions", f"{caption}; ✗ 2/5 means wrong in 2 of 5 repeats", columns, rows, numeric, long=True
    )


def _prediction_cell(part: SubjectPredictions, graph: int) -> Cell:
    if not part.n_tests[graph]:
        return Cell(MISSING)
    wrong = f" ✗\u00a0{part.n_wrong[graph]}/{part.n_tests[graph]}" if part.n_wrong[graph] else ""
    value = float(part.probability[graph])
    return Cell(f"{value:.2f}{wrong}", round(value, 6), is_marked=bool(part.always_wrong[graph]))


def _list_missed(methods: Sequence[ReportedMethod], predictions: Sequence[SubjectPredictions], graph: int) -> str:
    names = [m.label for m, part in zip(methods, predictions, strict=True) if part.always_wrong[graph]]
    return "all methods shown" if 1 < len(names) == len(methods) else ", ".join(names) or MISSING


def describe_missed(content: Content) -> str:
    """How many subjects each of the methods gets wrong in every repeat, in a sentence."""
    shown = choose_methods(content)
    if content.subjects is None or not shown:
        return ""
    predictions = [predict_subjects(method, len(content.subjects.names), content.positive) for method in shown]
    n_missing = np.sum([part.always_wrong for part in predictions], axis=0)
    n_tested = np.count_nonzero(np.sum([part.n_tests for part in predictions], axis=0))
    by_all = int((n_missing == len(shown)).sum()) if len(shown) > 1 else 0
    n_repeats = max(method.n_repeats for method in content.methods)
    repeats = "in the only repeat" if n_repeats == 1 else f"in each of {n_repeats} repeats"
    sentence = (
        f"{np.count_nonzero(n_missing)} of {n_tested} subjects are misclassified by at least one method {repeats}"
    )
    return f"{sentence}, {by_all} of them by all methods shown." if by_all else f"{sentence}."


def subjects_table(content: Content) -> PageTable | None:
    """Age, sex, motion, site and other covariates by class, with a test of a difference; None if there are none."""
    subjects = content.subjects
    if subjects is None:
        return None
    columns: dict[str, pd.Series] = {str(name): values for name, values in subjects.covariates.items()}
    if subjects.sites is not None:
        columns["site"] = pd.Series(list(subjects.sites))
    rows = [_covariate_row(name, values, subjects, len(content.classes)) for name, values in columns.items()]
    if not rows:
        return None
    counts = np.bincount(subjects.labels[subjects.labels >= 0], minlength=len(content.classes))
    names = [f"{name} (n = {count})" for name, count in zip(content.classes, counts, strict=True)]
    tests = "p of a difference"
    return PageTable("subjects", "Subjects by class", ["covariate", *names, tests], rows, [tests], False)


def _covariate_row(name: str, values: pd.Series, subjects: Subjects, n_classes: int) -> list[Cell]:
    """Mean and standard deviation of numbers, or counts of levels, in each class."""
    is_number = values.dtype.kind in "biuf"
    missing = values.isna() if is_number else values.isna() | (values.astype(str).str.strip() == "")
    groups = [values[(subjects.labels == code) & ~missing.to_numpy()] for code in range(n_classes)]
    lost = [int(((subjects.labels == code) & missing.to_numpy()).sum()) for code in range(n_classes)]
    describe = _describe_numbers if is_number else _describe_levels
    texts = [
        describe(group) + (f"; {n_missing} missing" if n_missing else "")
        for group, n_missing in zip(groups, lost, strict=True)
    ]
    p = _difference(groups, is_number)
    return [Cell(name), *map(Cell, texts), cell(p_value(p), p)]


def _describe_numbers(values: pd.Series) -> str:
    if values.empty:
        return MISSING
    digits = 1 if values.abs().max() >= 10 else 2
    return (
        f"{values.mean():.{digits}f} ± {values.std(ddof=min(1, len(values) - 1)):.{digits}f} "
        f"({values.min():.{digits}f} to {values.max():.{digits}f})"
    )


def _describe_levels(values: pd.Series) -> str:
    counts = Counter(values.astype(str)).most_common()
    shown = [f"{level} {count} ({count / len(values):.0%})" for level, count in counts[:_LEVELS]]
    rest = sum(count for _, count in counts[_LEVELS:])
    return ", ".join([*shown, *([f"{len(counts) - _LEVELS} others {rest}"] if rest else [])]) or MISSING


def _difference(groups: Sequence[pd.Series], is_number: bool) -> float:
    """p-value of equal distributions: Kruskal and Wallis for numbers, chi-squared for levels; NaN if undefined."""
    filled = [group for group in groups if len(group)]
    everything = pd.concat(filled) if filled else pd.Series(dtype=float)
    if len(filled) < 2 or everything.nunique() < 2:
        return float("nan")
    if is_number:
        return float(stats.kruskal(*filled).pvalue)
    codes = np.concatenate([np.full(len(group), code) for code, group in enumerate(filled)])
    return float(stats.chi2_contingency(pd.crosstab(codes, everything.astype(str).to_numpy())).pvalue)
