"""The figures of a report: each with a name, a caption for readers and a text for those who cannot see it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet.evaluation.statistics import auc_variance, mean_variance
from isocapsnet.report import figures
from isocapsnet.report.content import Content, Method, Reconstructions
from isocapsnet.report.evidence import Scene
from isocapsnet.report.figures.style import MUTED, class_colours
from isocapsnet.report.prose import CONSTANT, METRIC_NAMES, REFERENCE, interval, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Illustration:
    """A figure, its file name, its caption and its text alternative; a picture has too many parts for SVG."""

    name: str
    figure: "Figure"
    caption: str
    alt: str
    is_picture: bool = False


def comparison(content: Content, metric: str = "roc_auc") -> Illustration:
    """All methods in one metric."""
    names = [method.label for method in content.methods]
    values = np.array([as_row(method.row["metrics"][metric]) for method in content.methods])
    label, is_area = METRIC_NAMES[metric], metric == "roc_auc"
    reference = REFERENCE if is_area else CONSTANT
    band = _chance_band(content) if is_area else None
    figure = figures.plot_comparison(
        names, values, label=label, chance=0.5 if is_area else None, band=band, reference=reference
    )
    shown = "; ".join(f"{method.label} {interval(method.row['metrics'][metric])}" for method in content.methods)
    caption = f"{label[0].upper()}{label[1:]} of every method, mean and 95 % interval over test folds."
    if band is not None and np.isfinite(band):
        caption += " Grey: where the mean of an uninformative method would lie at least 95 times in 100."
    if reference in names:
        caption += f" Orange: {reference}."
    return Illustration(f"comparison-{metric.replace('_', '-')}", figure, caption, f"{label}: {shown}.")


def folds(content: Content) -> Illustration:
    """One dot per fold."""
    scores = [np.array([_float(fold["roc_auc"]) for fold in method.row["folds"]]) for method in content.methods]
    means = [_float(method.row["metrics"]["roc_auc"]["mean"]) for method in content.methods]
    figure = figures.plot_folds([method.label for method in content.methods], scores, means=means)
    ranges = [
        f"{method.label} {number(np.nanmin(values))} to {number(np.nanmax(values))}"
        for method, values in zip(content.methods, scores, strict=True)
        if np.isfinite(values).any()
    ]
    return Illustration(
        "folds",
        figure,
        f"ROC AUC in each test fold; bars are means{' weighted by subjects' if content.sites else ''}.",
        f"ROC AUC of single test folds: {'; '.join(ranges)}.",
    )


def audit(content: Content) -> Illustration | None:
    """What shuffled nodes change; None without an audit."""
    audited = [method for method in content.methods if method.row["audit"]]
    if not audited:
        return None
    values = [as_row(method.row["audit"]["difference"]) for method in audited]
    shown = "; ".join(f"{method.label} {interval(method.row['audit']['difference'])}" for method in audited)
    return Illustration(
        "node-order",
        figures.plot_audit([method.label for method in audited], np.array(values)),
        "Node-order audit: change of ROC AUC when the nodes of every graph are put in one other order.",
        f"Change of ROC AUC with shuffled nodes: {shown}.",
    )


def sweep(content: Content) -> Illustration | None:
    """The parameter sweep; None without one."""
    found = content.sweep
    if found is None:
        return None
    metrics = {METRIC_NAMES[name]: values for name, values in found.metrics.items()}
    areas = found.metrics.get("roc_auc", next(iter(found.metrics.values())))
    shown = "; ".join(f"{value}: {number(row[0])}" for value, row in zip(found.values, areas, strict=True))
    return Illustration(
        f"sweep-{found.parameter.replace('_', '-')}",
        figures.plot_sweep(
            found.parameter, found.values, metrics, found.seconds, constant_accuracy=found.constant_accuracy
        ),
        f"{found.method} with different values of {found.parameter}, and the time each takes. Always answering the "
        f"most frequent class has an accuracy of {number(found.constant_accuracy)} on these folds.",
        f"Mean ROC AUC by {found.parameter}: {shown}.",
    )


def of_method(method: Method, classes: Sequence[str]) -> Iterator[Illustration]:
    """ROC, calibration, confusion, learning and representation of one method, as far as there is something to show."""
    slug = as_slug(method.label)
    if method.fits:
        labels, probabilities, repeats = method.labels, method.probabilities, method.n_repeats
        area = interval(method.row["metrics"]["roc_auc"])
        yield Illustration(
            f"{slug}-roc",
            figures.plot_roc(labels, probabilities, method.fit_of, classes),
            "Thin: single test folds; thick: their mean.",
            f"ROC curves of {method.label}; area {area}.",
        )
        yield Illustration(
            f"{slug}-calibration",
            figures.plot_calibration(labels, probabilities, n_repeats=repeats, classes=classes),
            "Predicted against observed frequency, with 95 % intervals; grey: number of predictions.",
            f"Calibration of {method.label}; Brier score {interval(method.row['metrics']['brier'])}.",
        )
        yield Illustration(
            f"{slug}-confusion",
            figures.plot_confusion(labels, probabilities, n_repeats=repeats, classes=classes),
            "Test graphs by true and predicted class.",
            f"Confusion matrix of {method.label}; accuracy {interval(method.row['metrics']['accuracy'])}.",
        )
    if method.histories:
        epochs = [len(history) for history in method.histories]
        validated = any(epoch.get("valid_loss") is not None for history in method.histories for epoch in history)
        yield Illustration(
            f"{slug}-learning",
            figures.plot_learning(method.histories),
            "One line per fit" + ("; dots: the epoch with the lowest validation loss." if validated else "."),
            f"Learning curves of {len(epochs)} fits of {method.label}, {min(epochs)} to {max(epochs)} epochs.",
        )
    found = method.representation
    if found is not None and min(found.vectors.shape) > 1:
        yield Illustration(
            f"{slug}-representation",
            figures.plot_representation(found.vectors, found.labels, classes),
            "Test graphs of the first fold on two principal components of what the network makes of them.",
            f"{len(found.labels)} test graphs of {method.label} in two dimensions.",
        )


def template(matrix: NDArray[Any], *, name: str, title: str) -> Illustration:
    """A template as matrix and sub-graph."""
    values = np.asarray(matrix, dtype=float)
    rows = "; ".join(" ".join(number(value, 2) for value in row) for row in values)
    return Illustration(
        name,
        figures.plot_template(values),
        f"{title}: matrix and sub-graph. Orange is positive, blue negative; width is strength.",
        f"{title}, rows: {rows}." if len(values) <= 6 else f"{title}, {len(values)} by {len(values)} entries.",
    )


def draw_scene(scene: Scene, coordinates: NDArray[Any], n_classes: int) -> "Figure":
    """A scene on a glass brain: nodes by their weight, in the colour of the class they speak for."""
    palette = class_colours(n_classes)
    return figures.plot_connectome(
        coordinates,
        scene.edges,
        node_sizes=60 * scene.nodes / (scene.nodes.max(initial=0.0) or 1.0),
        node_colours=[MUTED if code < 0 else palette[code] for code in scene.favours],
    )


def on_brain(content: Content, scene: Scene, *, name: str) -> Illustration | None:
    """A scene on a glass brain; None without coordinates."""
    if content.coordinates is None:
        return None
    colour = "; their colour: the class in which it matches better" if (scene.favours >= 0).any() else ""
    top = ", ".join(content.node_name(node) for node in scene.top)
    return Illustration(
        name,
        draw_scene(scene, content.coordinates, len(content.classes)),
        f"{scene.title} on the brain. Dots: regions, by their weight{colour}. Lines: positive edges orange, negative "
        "ones blue.",
        f"Glass brain of {scene.title}; main regions {top or 'none'}.",
        is_picture=True,
    )


def reconstruction(
    found: Reconstructions, classes: Sequence[str], coordinates: NDArray[Any] | None = None
) -> Illustration:
    """The paper's case study: one subject of each class."""
    first = [int(np.flatnonzero(found.labels == code)[0]) for code in np.unique(found.labels)]
    names = [f"{found.subjects[place]} ({classes[found.labels[place]]})" for place in first]
    caption = (
        f"{found.method}, one test subject of each class: its graph (edges of at least 0.05 of the largest, and of "
        "these the strongest, four per node), its matrix, and what the decoder makes of its capsules."
    )
    own, others = found.likeness()
    if np.isfinite([own, others]).all():
        caption += (
            f" Over {len(found.labels)} test graphs, a reconstruction correlates by {number(own, 2)} with its own "
            f"graph and by {number(others, 2)} with those of other subjects."
        )
    return Illustration(
        f"{as_slug(found.method)}-reconstruction",
        figures.plot_reconstruction(found.inputs[first], found.outputs[first], names, coordinates),
        caption,
        f"Input and reconstruction of {' and '.join(names)} by {found.method}.",
        is_picture=True,
    )


def as_row(values: Mapping[str, float | None]) -> list[float]:
    """Mean, low and high as numbers; NaN for what is missing."""
    return [_float(values[name]) for name in ("mean", "low", "high")]


def as_slug(text: str) -> str:
    """Letters, digits and dashes only, for ids and file names."""
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower()).strip("-")


def _float(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _chance_band(content: Content) -> float | None:
    """Half the width in which an uninformative method's mean lies at least 95 times in 100."""
    largest = max(content.methods, key=lambda method: len(method.fits), default=None)
    if largest is None or len(largest.fits) < 2:
        return None
    counts = [np.bincount(fit.labels, minlength=len(content.classes)).tolist() for fit in largest.fits]
    variances = [auc_variance(0.5, count) for count in counts]
    n_defined = int(np.isfinite(variances).sum())
    if n_defined < 2:
        return None
    variance = mean_variance(variances, [fold["weight"] for fold in largest.row["folds"]])
    return float(1.96 * np.sqrt(variance * (1 / n_defined + content.results["test_over_train"])))
