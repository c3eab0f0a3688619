"""Figures inside a page: SVG in the page's own colours, or PNG where SVG would be large."""

import base64
import re
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from isocapsnet.report.figures.style import FAINT, INK, MUTED, as_png, as_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SVG_CHARACTERS = 120_000


def embed(figure: "Figure", *, name: str, alt: str, as_picture: bool = False) -> Markup:
    """The figure as markup that a page can hold any number of; ``alt`` is its text alternative.

    ``as_picture`` asks for PNG at once, where SVG is known to be large.
    """
    svg = "" if as_picture else as_svg(figure)
    if as_picture or len(svg) > _SVG_CHARACTERS:
        image = base64.b64encode(as_png(figure)).decode()
        width = round(figure.get_figwidth() * 96)
        return Markup('<img alt="{}" width="{}" src="data:image/png;base64,{}">').format(alt, width, Markup(image))
    svg = svg[svg.index("<svg") :]
    # A style element inside a page would apply to all of it; the page's own sheet says the same of figures.
    svg = re.sub(r"<style.*?</style>|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    needed = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in needed else "", svg)
    svg = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    for colour, variable in ((INK, "--ink"), (MUTED, "--muted"), (FAINT, "--faint")):
        svg = svg.replace(colour, f"var({variable})")
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1))
