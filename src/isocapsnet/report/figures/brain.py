"""Figures of graphs on the brain: evidence on a glass brain, reconstructions."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._format import number
from isocapsnet._packages import importing
from isocapsnet.report.content import Content, ReportedMethod
from isocapsnet.report.evidence import Scene
from isocapsnet.report.figures import style
from isocapsnet.report.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from isocapsnet.explanation.cards import MotifCard
    from isocapsnet.explanation.reconstructions import Reconstructions

_DRAWN_EDGES_PER_NODE = 4
_CARRIERS = 4
# The smallest size of a node at which an edge ends.
_END = 6.0
# Views of a glass brain (left, back, right, top) in the order of its axes, and the coordinates that each shows.
_VIEWS = {"l": (1, 2), "y": (0, 2), "r": (1, 2), "z": (0, 1)}


def brain(content: Content, scene: Scene) -> Iterator[Drawing]:
    """The regions and edges of an evidence card on a glass brain."""
    if content.coordinates is not None:
        colour = "; colour: the class in which it matches better" if (scene.favours >= 0).any() else ""
        regions = ", ".join(content.node_name(node) for node in scene.top)
        size, lines = f"their weight{colour}", "edges"
        if scene.motif is not None:
            size = "number of carriers that have the motif there"
            lines = "the motif in its clearest carrier"
        figure = plot_scene(scene, content.coordinates, len(content.classes))
        yield Drawing(
            f"{scene.id}-brain",
            figure,
            f"{scene.title} on the brain. Dots: regions; size: {size}. Lines: {lines}, positive edges in orange, "
            "negative ones in blue. Point at a dot to read its name.",
            f"Glass brain of {scene.title}; main regions {regions or 'none'}.",
            prefer_png=True,
            names=list(_names_of_dots(figure, content, scene)),
        )


def carriers(content: Content, scene: Scene) -> Iterator[Drawing]:
    """A motif in its clearest carriers, each on a glass brain."""
    if content.coordinates is not None and scene.motif is not None and scene.motif.carriers:
        yield Drawing(
            f"{scene.id}-carriers",
            plot_carriers(scene.motif, content.classes, content.coordinates),
            f"{scene.title} in its clearest carriers, seen from above. Numbers are the nodes of the motif as drawn.",
            f"Glass brains of {scene.title} in single subjects.",
            prefer_png=True,
        )


def reconstruction(content: Content, method: ReportedMethod) -> Iterator[Drawing]:
    """A graph of each class and its reconstruction (Figure 3 of the paper)."""
    graphs = None if method.explanation is None else method.explanation.reconstructions
    if graphs is None:
        return
    caption = (
        f"{method.label}, one test subject of each class: its graph (edges of at least 0.05 of the largest, and of "
        "these the strongest, four per node), its matrix, and its reconstruction from the capsules."
    )
    own, others = graphs.similarity()
    if np.isfinite([own, others]).all():
        caption += (
            f" Over {len(graphs.labels)} test graphs, the mean correlation of a reconstruction is {number(own, 2)} "
            f"with its own graph and {number(others, 2)} with graphs of other subjects."
        )
    figure, names = plot_one_of_each_class(graphs, content.classes, content.coordinates)
    alt = f"Input and reconstruction of {' and '.join(names)} by {method.label}."
    yield Drawing(f"{method.slug}-reconstruction", figure, caption, alt, prefer_png=True)


def plot_scene(scene: Scene, coordinates: NDArray[Any], n_classes: int) -> "Figure":
    """A scene on a glass brain: nodes by weight, in the colour of their class."""
    palette = style.class_colours(n_classes)
    # Regions of a motif have small dots if it lies on other regions in every carrier.
    largest = max(scene.nodes.max(initial=0.0), 0.0 if scene.motif is None else 0.5)
    return plot_connectome(
        coordinates,
        scene.edges,
        node_sizes=60 * scene.nodes / (largest or 1.0),
        node_colours=[style.MUTED if code < 0 else palette[code] for code in scene.favours],
    )


def _names_of_dots(figure: "Figure", content: Content, scene: Scene) -> Iterator[tuple[str, float, float]]:
    """The name of each drawn region in each view, and where it is: shares of width and height of the figure."""
    figure.draw_without_rendering()  # which places the axes
    coordinates = np.asarray(content.coordinates, dtype=float)
    is_shown = (scene.nodes > 0) | scene.edges.any(axis=0)
    shown_nodes = [node for node in np.argsort(scene.nodes, kind="stable") if is_shown[node]]  # the largest on top
    for axis, (view, shown) in zip(figure.axes[-len(_VIEWS) :], _VIEWS.items(), strict=True):
        for node in shown_nodes:
            x = coordinates[node, 0]
            if (view == "l" and x > 0) or (view == "r" and x < 0):
                continue
            left, bottom = axis.transData.transform(coordinates[node, list(shown)]) / figure.bbox.size
            yield content.node_name(int(node)), float(left), float(1 - bottom)


@style.styled()
def plot_carriers(card: "MotifCard", classes: Sequence[str], coordinates: NDArray[Any]) -> "Figure":
    """A motif in up to four of its clearest carriers, on glass brains from above."""
    from matplotlib.figure import Figure

    shown = card.carriers[:_CARRIERS]
    figure, width = Figure(figsize=(style.FULL, 2.1), facecolor="white"), 1 / _CARRIERS
    matrix = np.asarray(card.matrix, dtype=float)
    for column, carrier in enumerate(shown):
        positions = np.asarray(coordinates, dtype=float)[carrier.nodes]
        axes = _glass_brain(
            figure, (column * width, 0.0, width, 0.88), positions, matrix, 1.8, display_mode="z", node_size=45
        )
        for node, (x, y, _) in enumerate(positions, start=1):
            axes["z"].ax.text(x, y, str(node), color="white", fontsize=5.5, ha="center", va="center", zorder=2000)
        title = f"{carrier.subject} ({classes[carrier.label]})"
        figure.text((column + 0.5) * width, 0.92, title, ha="center", fontsize=7)
    return figure


def plot_one_of_each_class(
    graphs: "Reconstructions", classes: Sequence[str], coordinates: NDArray[Any] | None
) -> "tuple[Figure, list[str]]":
    """The reconstruction of the first subject of each class, and the names of these subjects."""
    first = [int(np.flatnonzero(graphs.labels == code)[0]) for code in np.unique(graphs.labels)]
    names = [f"{graphs.subjects[index]} ({classes[graphs.labels[index]]})" for index in first]
    return plot_reconstruction(graphs.inputs[first], graphs.outputs[first], names, coordinates), names


@style.styled()
def plot_connectome(
    coordinates: ArrayLike, adjacency: ArrayLike, *, node_sizes: ArrayLike = 12.0, node_colours: Any = style.INK
) -> "Figure":
    """Edges between regions on a glass brain, from the left, back, top and right.

    ``coordinates`` ``(n_nodes, 3)`` are MNI millimetres, ``adjacency`` ``(n_nodes, n_nodes)`` signed weights with 0 for
    no edge, ``node_sizes`` a number or ``(n_nodes,)``. Nodes of size 0 without edges are not drawn. Every edge ends at
    dots, small ones where nodes have size 0.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(style.FULL, 2.2), facecolor="white")
    positions, weights = np.asarray(coordinates, dtype=float), np.asarray(adjacency, dtype=float)
    sizes, colours = (np.broadcast_to(values, len(positions)) for values in (node_sizes, node_colours))
    has_edge = (weights != 0).any(axis=0) | (weights != 0).any(axis=1)
    sizes = np.where(has_edge, np.maximum(sizes, _END), sizes)
    shown = sizes > 0
    _glass_brain(
        figure,
        (0, 0, 1, 1),
        positions[shown],
        weights[np.ix_(shown, shown)],
        1.2,
        display_mode="lyrz",
        node_size=sizes[shown],
        node_color=colours[shown].tolist(),
    )
    return figure


@style.styled()
def plot_reconstruction(
    inputs: ArrayLike, reconstructions: ArrayLike, names: Sequence[str], coordinates: ArrayLike | None = None
) -> "Figure":
    """For each subject the graph on a glass brain, its matrix and the reconstructed matrix (Figure 3 of the paper).

    The glass brain shows the edges of :func:`edges_to_draw`. Without coordinates there are no glass brains.
    """
    from matplotlib.figure import Figure

    graphs, drawn = np.asarray(inputs, dtype=float), np.asarray(reconstructions, dtype=float)
    first = 0 if coordinates is None else 1
    figure = Figure(figsize=(style.FULL, 2.3 * len(graphs)) if first else (style.FULL * 0.7, 2.4 * len(graphs)))
    height, width = 1 / len(graphs), (0.9 if first else 0.87) / (2 + first)
    for row, name in enumerate(names):
        bottom = 1 - (row + 0.97) * height
        graph, drawing = style.without_diagonal(graphs[row]), style.without_diagonal(drawn[row])
        if coordinates is not None:
            box, strong = (0.0, bottom, width, 0.86 * height), edges_to_draw(graph)
            _glass_brain(figure, box, np.asarray(coordinates, dtype=float), strong, 0.5, display_mode="z", node_size=3)
        colours, norm = _matrix_colours(graph, drawing)
        for column, (matrix, title) in enumerate([(graph, f"{name}: input"), (drawing, "reconstruction")], start=first):
            axis = figure.add_axes((column * width + 0.02, bottom, width - 0.03, 0.86 * height))
            image = axis.imshow(matrix, cmap=colours, norm=norm, interpolation="nearest")
            axis.set(title=title, xticks=[], yticks=[])
            axis.spines[:].set(visible=True)
        box = ((2 + first) * width + 0.015, bottom + 0.1 * height, 0.012, 0.66 * height)
        figure.colorbar(image, cax=figure.add_axes(box), ticks=_decades(norm))
    return figure


def edges_to_draw(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrix with its strongest edges, four per node on average, of those of at least 0.05 of the largest."""
    strengths, n_drawn = np.abs(matrix), _DRAWN_EDGES_PER_NODE * len(matrix)
    weakest = np.sort(strengths[np.triu_indices(len(matrix), k=1)])[-n_drawn:].min(initial=np.inf)
    return np.where(strengths >= max(0.05 * strengths.max(initial=0.0), weakest, 1e-300), matrix, 0.0)


def is_heavy_tailed(values: NDArray[np.float64]) -> bool:
    """Whether a few values are so large, as in streamline counts, that a linear colour scale would hide the others."""
    magnitudes = np.abs(values[values != 0])
    return bool(len(magnitudes) and magnitudes.max() > 50 * np.median(magnitudes))


def _matrix_colours(*matrices: NDArray[np.float64]) -> tuple[Any, Any]:
    """One colour map and norm for all these matrices."""
    from matplotlib.colors import Normalize, SymLogNorm

    values = np.concatenate([matrix.ravel() for matrix in matrices])
    limit = float(np.abs(values).max(initial=0.0)) or 1.0
    signed = bool((values < -0.01 * limit).any())
    low = -limit if signed else 0.0
    norm = SymLogNorm(limit / 1000, vmin=low, vmax=limit) if is_heavy_tailed(values) else Normalize(low, limit)
    return style.colour_map("signed") if signed else style.colour_map("magnitude"), norm


def _decades(norm: Any) -> list[float] | None:
    """Ticks of a logarithmic scale: 0 and the powers of ten outside its linear part; None for other scales."""
    if not hasattr(norm, "linthresh"):
        return None
    powers = 10.0 ** np.arange(np.ceil(np.log10(norm.linthresh)), np.log10(norm.vmax) + 1e-9)
    return [*(-powers[::-1] if norm.vmin < 0 else ()), 0.0, *powers]


def _glass_brain(
    figure: "Figure", box: tuple[float, float, float, float], coordinates: NDArray[np.float64],
    adjacency: NDArray[np.float64], line_width: float, **options: Any,
) -> Any:  # fmt: skip
    """nilearn's glass brain in ``box`` (left, bottom, width, height) of the figure; its axes by name of the view."""
    with importing("Glass brains need nilearn", "plots"):
        from nilearn.plotting import plot_connectome as draw
    limit = float(np.abs(adjacency).max(initial=0.0)) or 1.0
    display = draw(
        (adjacency + adjacency.T) / 2,
        coordinates,
        figure=figure,
        axes=box,
        edge_cmap=style.colour_map("edges"),
        edge_vmin=-limit,
        edge_vmax=limit,
        edge_kwargs={"linewidth": line_width},
        colorbar=False,
        annotate=False,
        **{"node_color": style.INK, **options},
    )
    return display.axes
