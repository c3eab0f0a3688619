"""Graphs to look at: templates, glass brains, reconstructions, representations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._validation import InputError
from isocapsnet.report.figures.style import (
    FULL,
    INK,
    MUTED,
    NEGATIVE,
    POSITIVE,
    class_colours,
    edge_colours,
    magnitude_colours,
    markers_of,
    new_figure,
    signed_colours,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELLED_ENTRIES = 6
_DRAWN_EDGES_PER_NODE = 4


@styled
def plot_template(template: ArrayLike, *, title: str = "") -> "Figure":
    """A template ``(k, k)`` as a matrix and as a drawing: signed edges, wide where strong.

    Row a, column b is the edge from node a to node b. Edges that differ by direction are drawn as two arrows,
    equal ones as one line; the diagonal colours the nodes.
    """
    matrix = np.asarray(template, dtype=float)
    size = len(matrix)
    limit = float(np.abs(matrix).max()) or 1.0
    figure, (left, right) = new_figure(3.6, 1.9, 2)
    left.imshow(matrix, cmap=signed_colours(), vmin=-limit, vmax=limit)
    if size <= _LABELLED_ENTRIES:
        for row, column in np.ndindex(size, size):
            value = matrix[row, column]
            colour = "white" if abs(value) > 0.6 * limit else "black"
            left.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=6.5)
    names = [str(node) for node in range(1, size + 1)]
    left.set_xticks(range(size), names)
    left.set_yticks(range(size), names)
    left.tick_params(length=0)
    left.spines[:].set_visible(False)
    _draw_subgraph(right, matrix)
    if title:
        left.set_title(title)
    return figure


@styled
def plot_connectome(
    coordinates: ArrayLike, adjacency: ArrayLike, *, node_sizes: ArrayLike = 12.0, node_colours: Any = None
) -> "Figure":
    """Edges between regions on a glass brain, from the left, behind, above and the right.

    Parameters
    ----------
    coordinates : array (n_nodes, 3)
        MNI millimetres.
    adjacency : array (n_nodes, n_nodes)
        Signed weights; 0 is no edge.
    node_sizes : float or array (n_nodes,)
        Nodes of size 0 are left out.
    node_colours : list of colours (n_nodes,), optional
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(FULL, 2.2), facecolor="white")
    FigureCanvasAgg(figure)
    places, weights = np.asarray(coordinates, dtype=float), np.asarray(adjacency, dtype=float)
    sizes = np.broadcast_to(np.asarray(node_sizes, dtype=float), len(places))
    shown = (sizes > 0) | (weights != 0).any(axis=0) | (weights != 0).any(axis=1)
    colours = [INK] * len(places) if node_colours is None else list(node_colours)
    _glass_brain(
        figure,
        (0, 0, 1, 1),
        places[shown],
        weights[np.ix_(shown, shown)],
        1.2,
        display_mode="lyrz",
        node_size=sizes[shown],
        node_color=[colour for colour, is_shown in zip(colours, shown, strict=True) if is_shown],
    )
    return figure


@styled
def plot_reconstruction(
    inputs: ArrayLike,
    reconstructions: ArrayLike,
    names: Sequence[str],
    coordinates: ArrayLike | None = None,
    *,
    threshold: float = 0.05,
) -> "Figure":
    """The paper's case study: for each subject the graph on a glass brain, its matrix, the reconstructed matrix.

    Edges of the drawing are those of at least ``threshold`` of the graph's largest edge, and of these the strongest,
    four per node on average: beyond, a glass brain is one blot. Without coordinates the first column is left out.

    Parameters
    ----------
    inputs, reconstructions : array (n_subjects, n_nodes, n_nodes)
    names : sequence of str (n_subjects,)
    coordinates : array (n_nodes, 3), optional
        MNI millimetres.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    graphs, drawn = np.asarray(inputs, dtype=float), np.asarray(reconstructions, dtype=float)
    first = 0 if coordinates is None else 1
    figure = Figure(figsize=(FULL, 2.3 * len(graphs)) if first else (FULL * 0.7, 2.4 * len(graphs)))
    FigureCanvasAgg(figure)
    height, width = 1 / len(graphs), (0.9 if first else 0.87) / (2 + first)
    for row, name in enumerate(names):
        bottom = 1 - (row + 0.97) * height
        graph, drawing = without_diagonal(graphs[row]), without_diagonal(drawn[row])
        if coordinates is not None:
            box, strong = (0.0, bottom, width, 0.86 * height), strongest_edges(graph, threshold)
            _glass_brain(figure, box, np.asarray(coordinates, dtype=float), strong, 0.5, display_mode="z", node_size=3)
        colours, norm = _matrix_colours(graph, drawing)
        for column, (matrix, title) in enumerate([(graph, f"{name}: input"), (drawing, "reconstruction")], start=first):
            axis = figure.add_axes((column * width + 0.02, bottom, width - 0.03, 0.86 * height))
            image = axis.imshow(matrix, cmap=colours, norm=norm, interpolation="nearest")
            axis.set_title(title)
            axis.set_xticks([])
            axis.set_yticks([])
            axis.spines[:].set(visible=True)
        place = ((2 + first) * width + 0.015, bottom + 0.1 * height, 0.012, 0.66 * height)
        figure.colorbar(image, cax=figure.add_axes(place), ticks=_decades(norm))
    return figure


@styled
def plot_representation(vectors: ArrayLike, labels: ArrayLike, classes: Sequence[str]) -> "Figure":
    """Capsules or other ``vectors`` ``(n_graphs, n_features)`` on two principal components, a marker per class."""
    from sklearn.decomposition import PCA

    values, truth = np.asarray(vectors, dtype=float), np.asarray(labels)
    figure, (axis,) = new_figure(2.9, 2.75)
    fitted = PCA(n_components=2, svd_solver="full").fit(values)
    points = fitted.transform(values)
    styles = zip(classes, class_colours(len(classes)), markers_of(len(classes)), strict=True)
    for code, (name, colour, marker) in enumerate(styles):
        here = points[truth == code]
        axis.plot(
            here[:, 0], here[:, 1], marker, ms=4.2, color=colour, alpha=0.75, mew=0, label=name, gid=f"class-{code}"
        )
    share = np.nan_to_num(fitted.explained_variance_ratio_)
    axis.set_xlabel(f"component 1 ({share[0]:.0%} of variance)")
    axis.set_ylabel(f"component 2 ({share[1]:.0%})")
    axis.set_title("Representation")
    axis.legend(loc="best", handletextpad=0.2)
    return figure


def without_diagonal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A copy of ``(n_nodes, n_nodes)`` with 0 on the diagonal, which would drown the edges of count data."""
    return np.where(np.eye(len(matrix), dtype=bool), 0.0, matrix)


def strongest_edges(matrix: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """The matrix without edges under ``threshold`` of the largest, and with the strongest alone, four per node."""
    strengths, n_drawn = np.abs(matrix), _DRAWN_EDGES_PER_NODE * len(matrix)
    weakest = np.sort(strengths[np.triu_indices(len(matrix), k=1)])[-n_drawn:].min(initial=np.inf)
    return np.where(strengths >= max(threshold * strengths.max(initial=0.0), weakest, 1e-300), matrix, 0.0)


def is_heavy_tailed(values: NDArray[np.float64]) -> bool:
    """Whether a few values dwarf the others, as streamline counts do; a linear colour scale would hide the others."""
    magnitudes = np.abs(values[values != 0])
    return bool(len(magnitudes) and magnitudes.max() > 50 * np.median(magnitudes))


def _matrix_colours(*matrices: NDArray[np.float64]) -> tuple[Any, Any]:
    """The colour map and norm that show all these matrices alike."""
    from matplotlib.colors import Normalize, SymLogNorm

    values = np.concatenate([matrix.ravel() for matrix in matrices])
    limit = float(np.abs(values).max(initial=0.0)) or 1.0
    signed = bool((values < -0.01 * limit).any())
    low = -limit if signed else 0.0
    norm = SymLogNorm(limit / 1000, vmin=low, vmax=limit) if is_heavy_tailed(values) else Normalize(low, limit)
    return signed_colours() if signed else magnitude_colours(), norm


def _decades(norm: Any) -> list[float] | None:
    """0 and the powers of ten outside the linear part of a logarithmic scale; None for the usual ticks."""
    if not hasattr(norm, "linthresh"):
        return None
    powers = 10.0 ** np.arange(np.ceil(np.log10(norm.linthresh)), np.log10(norm.vmax) + 1e-9)
    return [*(-powers[::-1] if norm.vmin < 0 else ()), 0.0, *powers]


def _draw_subgraph(axis: "Axes", matrix: NDArray[np.float64]) -> None:
    """Nodes on a circle, the first on top, with their edges; node colours and edge widths have their own scales."""
    from matplotlib.patches import FancyArrowPatch

    size = len(matrix)
    limit = float(np.abs(without_diagonal(matrix)).max()) or 1.0
    diagonal = np.diag(matrix) / (np.abs(np.diag(matrix)).max() or 1.0)
    angles = np.pi / 2 - 2 * np.pi * np.arange(size) / size
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1) if size > 1 else np.zeros((1, 2))
    directed = not np.allclose(matrix, matrix.T, atol=0.02 * limit)
    for row, column in np.ndindex(size, size):
        strength = matrix[row, column] / limit
        if row == column or abs(strength) < 0.05 or (not directed and row > column):
            continue
        edge = FancyArrowPatch(
            tuple(places[row]),
            tuple(places[column]),
            arrowstyle="-|>,head_length=3,head_width=1.8" if directed else "-",
            connectionstyle="arc3,rad=0.16" if directed else "arc3",
            shrinkA=7,
            shrinkB=7,
            lw=0.4 + 2.4 * abs(strength),
            color=POSITIVE if strength > 0 else NEGATIVE,
            alpha=0.35 + 0.65 * abs(strength),
            gid="edge",
        )
        axis.add_patch(edge)
    colours = signed_colours()(0.5 + 0.5 * diagonal)
    axis.scatter(places[:, 0], places[:, 1], s=130, c=colours, edgecolors=MUTED, linewidths=0.8, zorder=3)
    for node, (x, y) in enumerate(places):
        colour = "white" if abs(diagonal[node]) > 0.6 else "black"
        axis.text(x, y, str(node + 1), ha="center", va="center", fontsize=7, color=colour, zorder=4)
    axis.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal")
    axis.axis("off")


def _glass_brain(
    figure: "Figure", box: tuple[float, float, float, float], coordinates: NDArray[np.float64],
    adjacency: NDArray[np.float64], line_width: float, **options: Any,
) -> None:  # fmt: skip
    """nilearn's glass brain in ``box`` (left, bottom, width, height) of the figure."""
    try:
        from nilearn.plotting import plot_connectome as draw
    except ImportError as error:
        raise InputError('Glass brains need nilearn; run: pip install "isocapsnet[plots]"') from error
    symmetric = np.allclose(adjacency, adjacency.T)
    limit = float(np.abs(adjacency).max(initial=0.0)) or 1.0
    draw(
        adjacency if symmetric else (adjacency + adjacency.T) / 2,
        coordinates,
        figure=figure,
        axes=box,
        edge_cmap=edge_colours(),
        edge_vmin=-limit,
        edge_vmax=limit,
        edge_kwargs={"linewidth": line_width},
        colorbar=False,
        annotate=False,
        **{"node_color": INK, **options},
    )
