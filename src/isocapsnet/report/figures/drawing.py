"""A drawn figure with its caption, and the entry of a kind of figure in the registry."""

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup, escape

from isocapsnet._validation import InputError
from isocapsnet.report.figures.style import FAINT, INK, METHODS, MUTED, as_png, as_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from isocapsnet.report.content import Content

_SVG_CHARACTERS = 120_000
#: Colours of figures and the variables of the page that replace them.
VARIABLES = {INK: "--ink", MUTED: "--muted", FAINT: "--faint"} | {
    colour: f"--method-{number}" for number, colour in enumerate(METHODS, start=1)
}


@dataclass(frozen=True)
class Drawing:
    """A matplotlib figure with its file name (which is also its id on the page), caption and text alternative.

    The page shows it as PNG if ``prefer_png`` is set or its SVG is large. ``names`` are shown where the pointer is: a
    text, and its position as shares of width and height from the upper left corner.
    """

    name: str
    figure: "Figure"
    caption: str
    alt: str
    prefer_png: bool = False
    names: Sequence[tuple[str, float, float]] = ()

    @property
    def html(self) -> Markup:
        """The figure as SVG in the colours of the page, or as PNG if that would be large."""
        svg = "" if self.prefer_png else as_svg(self.figure)
        if self.prefer_png or len(svg) > _SVG_CHARACTERS:
            image = base64.b64encode(as_png(self.figure)).decode()
            width = round(self.figure.get_figwidth() * 96)
            tag = Markup('<img alt="{}" width="{}" src="data:image/png;base64,{}">')
            return self._with_names(tag.format(self.alt, width, Markup(image)))
        svg = svg[svg.index("<svg") :]
        # A style element would apply to the whole page, which has these rules in its own style sheet.
        svg = re.sub(r"<style.*?</style>|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        # Ids must be unique on the page; those that nothing refers to are removed.
        needed = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
        svg = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in needed else "", svg)
        svg = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{self.name}-", svg)
        for colour, variable in VARIABLES.items():
            svg = svg.replace(colour, f"var({variable})")
        return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(self.alt)}"', 1))

    def _with_names(self, image: Markup) -> Markup:
        """An image under invisible dots that show names, also without JavaScript."""
        if not self.names:
            return image
        dot = Markup('<i title="{}" style="left:{:.2f}%;top:{:.2f}%"></i>')
        dots = Markup("").join(dot.format(name, 100 * x, 100 * y) for name, x, y in self.names)
        return Markup('<span class="named">{}<span aria-hidden="true">{}</span></span>').format(image, dots)


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure: how it is drawn, and the section of the page where it is shown.

    ``draw`` yields drawings, or none if there is nothing to show. It is called as ``draw(content)``, for each method as
    ``draw(content, method)``, or for each evidence card as ``draw(content, scene)``.
    """

    draw: Callable[..., Iterator[Drawing]]
    section: str
    of: Literal["study", "method", "scene"] = "study"

    def __call__(self, content: "Content", which: str | None = None, **options: Any) -> "Figure":
        """The matplotlib figure; ``which`` is the label of a method or the title of a card (default: the first)."""
        from isocapsnet.report.evidence import list_scenes

        subjects: list[tuple[Any, ...]] = [()]
        if self.of == "method":
            subjects = [(m,) for m in content.methods if which in (None, m.label)]
        elif self.of == "scene":
            subjects = [(scene,) for scene in list_scenes(content) if which in (None, scene.title)]
        for subject in subjects:
            for drawing in self.draw(content, *subject, **options):
                return drawing.figure
        raise InputError(f"The results have nothing to draw{f' for {which}' if which else ''} in this figure.")
