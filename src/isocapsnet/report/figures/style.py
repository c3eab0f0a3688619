"""Style of all figures: colours for colour-blind readers, publication sizes, saving."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocapsnet._packages import importing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from isocapsnet.evaluation.results import MethodResult

#: The palette of Okabe and Ito (2008) without black and yellow, which are hard to see on dark or light pages.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
BLUE, VERMILION = PALETTE[:2]
POSITIVE, NEGATIVE = VERMILION, BLUE

#: Text, axes and faint lines; the page replaces them by its own variables.
INK, MUTED, FAINT = "#1a1d21", "#5f6670", "#d5d9de"

#: Colours of methods, which no class and no sign has. Iso-CapsNet has the first and the linear model the second one.
#: The page replaces them by its variables ``--method-1``, ``--method-2``, ..., which are lighter on a dark page.
METHODS = ("#3b3fa5", "#a86b00", "#1b7f84", "#8f2d56", "#6f7a00", "#7b3fa0", "#4f6d7a")
_COLOUR_OF = {"isocapsnet": METHODS[0], "linear": METHODS[1], "constant": MUTED, "confound-only": MUTED}
_DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)))

#: Inches: the full width of a journal page.
FULL = 7.2

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 8, "axes.titlesize": 8.5, "axes.labelsize": 8, "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5, "legend.fontsize": 7.5, "legend.frameon": False, "text.color": INK, "axes.labelcolor": INK,
    "axes.titlecolor": INK, "axes.titlelocation": "left", "axes.edgecolor": MUTED, "xtick.color": MUTED,
    "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.linewidth": 0.7,
    "xtick.major.width": 0.7, "ytick.major.width": 0.7, "axes.spines.top": False, "axes.spines.right": False,
    "grid.color": FAINT, "grid.linewidth": 0.6, "lines.linewidth": 1.4, "figure.facecolor": "none",
    "axes.facecolor": "none", "savefig.dpi": 300, "svg.fonttype": "none", "svg.hashsalt": "isocapsnet",
}  # fmt: skip

#: Colours from the lowest to the highest value, evenly spaced if they have no positions.
_COLOUR_MAPS: dict[str, list[Any]] = {
    "signed": [NEGATIVE, "#ffffff", POSITIVE],
    # Weak edges are pale instead of white, so that thin lines stay visible.
    "edges": [(0.0, NEGATIVE), (0.5, "#8fbcd8"), (0.5, "#efb48d"), (1.0, POSITIVE)],
    "magnitude": ["#ffffff", POSITIVE, "#5c2600"],
}


class MethodStyle(NamedTuple):
    """How all figures draw a method."""

    colour: str = METHODS[0]
    dash: Any = "-"


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the common style, as a context or a decorator; raise MissingPackageError without matplotlib."""
    with importing("Figures need matplotlib and nilearn", "plots"):
        import matplotlib
    settings: Any = _STYLE  # matplotlib's own type lists every possible key
    with matplotlib.rc_context(settings):
        yield


def new_figure(width: float, height: float, n_columns: int = 1, **options: Any) -> "tuple[Figure, list[Axes]]":
    """A figure of ``width`` x ``height`` inches with ``n_columns`` axes beside each other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, n_columns, squeeze=False, **options)[0])


def as_svg(figure: "Figure") -> str:
    """The figure as SVG; text stays text."""
    buffer = io.StringIO()
    with styled():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def as_png(figure: "Figure", dpi: int = 150) -> bytes:
    """The figure as PNG on white, in 256 colours, which is a third of the size without a visible difference."""
    from PIL import Image

    drawn, packed = io.BytesIO(), io.BytesIO()
    with styled():
        figure.savefig(drawn, format="png", dpi=dpi, facecolor="white")
    Image.open(drawn).convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        packed, "png", optimize=True
    )
    return packed.getvalue()


def save_figure(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write ``name.png``, on white, and ``name.svg`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{kind}" for kind in ("png", "svg")]
    with styled():
        for path in paths:
            figure.savefig(path, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else {})
    return paths


def colour_map(name: str) -> "Colormap":
    """The map for ``signed`` values, signed ``edges`` or a ``magnitude``."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(name, _COLOUR_MAPS[name])


def method_styles(rows: "Sequence[MethodResult]") -> dict[str, MethodStyle]:
    """Label to style of each method, the same in every figure of a report; all pairs of colour and dash differ."""
    free = [(colour, dash) for dash in _DASHES for colour in METHODS]
    free += [(MUTED, dash) for dash in _DASHES]
    styles: dict[str, MethodStyle] = {}
    for row in sorted(rows, key=lambda row: (row.name not in _COLOUR_OF, row.method)):
        wanted = _COLOUR_OF.get(row.name)
        usual = [style for style in free if style[0] == wanted]
        others = [style for style in free if style[0] not in _COLOUR_OF.values()] or free or [(MUTED, ":")]
        chosen = (usual or others)[0]
        if chosen in free:
            free.remove(chosen)
        styles[row.method] = MethodStyle(*chosen)
    return styles


def colours_of(n: int) -> list[str]:
    """``n`` colours; they repeat after six, where markers still differ."""
    return [PALETTE[i % len(PALETTE)] for i in range(n)]


def class_colours(n: int) -> list[str]:
    """``n`` colours for classes, which start after those of positive and negative edges."""
    return colours_of(n + 2)[2:]


def markers_of(n: int) -> list[str]:
    """``n`` markers; pairs of colour and marker do not repeat before 36."""
    return [MARKERS[(i + i // len(MARKERS)) % len(MARKERS)] for i in range(n)]


def see_through(values: NDArray[np.float64], positive: str = POSITIVE, negative: str = NEGATIVE) -> NDArray[np.float64]:
    """Colours ``(..., 4)`` of values from -1 to 1: transparent at 0, so that they suit a light and a dark page."""
    from matplotlib.colors import to_rgb

    shares = np.clip(values, -1, 1)
    colours = np.where(shares[..., None] < 0, to_rgb(negative), to_rgb(positive))
    drawn: NDArray[np.float64] = np.concatenate([colours, np.abs(shares)[..., None]], axis=-1)
    return drawn


def list_on_y(axis: "Axes", names: Sequence[str]) -> None:
    """Label the rows of a horizontal figure, the first on top; parameters of long names go to a second line."""
    axis.set_yticks(range(len(names)), [name.replace("[", "\n[") if len(name) > 20 else name for name in names])
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)


def without_diagonal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A copy of ``(n_nodes, n_nodes)`` with 0 on the diagonal, which is far larger than the edges of count data."""
    return np.where(np.eye(len(matrix), dtype=bool), 0.0, matrix)
