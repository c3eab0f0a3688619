"""Figures of learned templates: matrix and sub-graph."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._format import number
from isocapsnet.report.content import Content, ReportedMethod
from isocapsnet.report.evidence import Scene
from isocapsnet.report.figures import style
from isocapsnet.report.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELLED_ENTRIES = 6


def template(content: Content, scene: Scene) -> Iterator[Drawing]:
    """The template of an evidence card; for a motif what its carriers share, and the learned template."""
    if scene.card is not None:
        yield _draw(scene.card.matrix, f"{scene.id}-template", scene.title)
    if scene.motif is not None:
        note = f" Mean deviation from the mean graph in training graphs that carry it ({scene.motif.unit})."
        yield _draw(scene.motif.matrix, f"{scene.id}-pattern", scene.title, note)
        note = " The template that the network learned, in the same units and order of nodes."
        yield _draw(scene.motif.learned, f"{scene.id}-template", f"{scene.title}, learned template", note)


def first_templates(content: Content, method: ReportedMethod) -> Iterator[Drawing]:
    """The templates of the first fold, for methods without evidence cards."""
    matrices = next((fit.templates for fit in method.fits if fit.templates is not None), ())
    for index, matrix in enumerate(() if method.cards or method.motif_cards else matrices, start=1):
        yield _draw(matrix, f"{method.slug}-template-{index}", f"Template {index}")


def _draw(matrix: Any, name: str, title: str, note: str = "") -> Drawing:
    values = np.asarray(matrix, dtype=float)
    rows = "; ".join(" ".join(number(value, 2) for value in row) for row in values)
    return Drawing(
        name,
        plot_template(values),
        f"{title}: matrix and sub-graph. Orange edges are positive, blue edges negative; width is strength.{note}",
        f"{title}, rows: {rows}." if len(values) <= _LABELLED_ENTRIES else f"{title}, {len(values)} nodes.",
    )


@style.styled()
def plot_template(template: ArrayLike) -> "Figure":
    """A template ``(k, k)`` as a matrix and as a sub-graph with signed edges.

    Row a, column b is the edge from node a to node b. Edges that depend on the direction are drawn as two arrows,
    others as one line; the diagonal colours the nodes.
    """
    matrix = np.asarray(template, dtype=float)
    size = len(matrix)
    limit = float(np.abs(matrix).max()) or 1.0
    figure, (left, right) = style.new_figure(3.6, 1.9, 2)
    left.imshow(style.see_through(matrix / limit), interpolation="nearest")
    if size <= _LABELLED_ENTRIES:
        for row, column in np.ndindex(size, size):
            value = matrix[row, column]
            colour = "white" if abs(value) > 0.6 * limit else style.INK
            left.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=6.5)
    names = [str(node) for node in range(1, size + 1)]
    left.set_xticks(range(size), names)
    left.set_yticks(range(size), names)
    left.tick_params(length=0)
    left.spines[:].set_visible(False)
    _draw_subgraph(right, matrix)
    return figure


def _draw_subgraph(axis: "Axes", matrix: NDArray[np.float64]) -> None:
    """Nodes on a circle, the first on top, with their edges; node colours and edge widths have their own scales."""
    from matplotlib.patches import FancyArrowPatch

    size = len(matrix)
    limit = float(np.abs(style.without_diagonal(matrix)).max()) or 1.0
    diagonal = np.diag(matrix) / (np.abs(np.diag(matrix)).max() or 1.0)
    angles = np.pi / 2 - 2 * np.pi * np.arange(size) / size
    positions = np.stack([np.cos(angles), np.sin(angles)], axis=1) if size > 1 else np.zeros((1, 2))
    directed = not np.allclose(matrix, matrix.T, atol=0.02 * limit)
    for row, column in np.ndindex(size, size):
        strength = matrix[row, column] / limit
        if row == column or abs(strength) < 0.05 or (not directed and row > column):
            continue
        edge = FancyArrowPatch(
            tuple(positions[row]),
            tuple(positions[column]),
            arrowstyle="-|>,head_length=3,head_width=1.8" if directed else "-",
            connectionstyle="arc3,rad=0.16" if directed else "arc3",
            shrinkA=7,
            shrinkB=7,
            lw=0.4 + 2.4 * abs(strength),
            color=style.POSITIVE if strength > 0 else style.NEGATIVE,
            alpha=0.35 + 0.65 * abs(strength),
            gid="edge",
        )
        axis.add_patch(edge)
    colours = style.see_through(diagonal)
    axis.scatter(positions[:, 0], positions[:, 1], s=130, c=colours, edgecolors=style.MUTED, linewidths=0.8, zorder=3)
    for node, (x, y) in enumerate(positions):
        colour = "white" if abs(diagonal[node]) > 0.6 else style.INK
        axis.text(x, y, str(node + 1), ha="center", va="center", fontsize=7, color=colour, zorder=4)
    axis.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal")
    axis.axis("off")
