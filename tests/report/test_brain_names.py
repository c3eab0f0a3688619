"""Glass brains: every edge ends at a dot, and the names of regions are where their dots are."""

import io
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from isocapsnet.report.content import Content
from isocapsnet.report.evidence import Scene
from isocapsnet.report.figures import brain
from isocapsnet.report.figures.style import as_png
from tests.report.browsing import Visit
from tests.report.test_browser import BRAIN

REGIONS = (3, 20, 41, 60)


def make_scene(sizes: tuple[float, ...], edges: list[tuple[int, int]]) -> Scene:
    nodes, matrix = np.zeros(90), np.zeros((90, 90))
    nodes[list(REGIONS)] = sizes
    for a, b in edges:
        matrix[a, b] = matrix[b, a] = 1.0
    return Scene("a scene", "", nodes, np.full(90, -1), matrix, id="scene")


def test_every_edge_ends_at_a_dot(toy_content: Content) -> None:
    scene = make_scene((1.0, 0.0, 0.0, 0.0), [(20, 41), (20, 75)])
    figure = brain.plot_scene(scene, toy_content.coordinates, 2)
    above = figure.axes[-1]
    (dots,) = above.collections
    places = {tuple(np.round(place, 3)) for place in np.asarray(dots.get_offsets())}
    assert len(places) == 4  # regions 3, 20, 41 and 75
    ends = {tuple(np.round(end, 3)) for line in above.lines for end in zip(*line.get_data(), strict=True)}
    assert len(above.lines) == 2 and ends <= places
    assert min(dots.get_sizes()) > 0


def test_names_are_where_the_dots_are(toy_content: Content) -> None:
    scene = make_scene((1.0, 0.8, 0.9, 0.7), [])
    (drawing,) = brain.brain(toy_content, scene)
    picture = Image.open(io.BytesIO(as_png(drawing.figure))).convert("L")
    sides = [toy_content.coordinates[node, 0] for node in REGIONS]
    assert len(drawing.names) == sum(3 if side else 4 for side in sides)  # one hemisphere, and both others
    for name, x, y in drawing.names:
        assert name in [toy_content.node_names[node] for node in REGIONS]
        assert picture.getpixel((round(x * picture.width), round(y * picture.height))) < 140, name


def test_names_are_escaped_and_absent_without_dots(toy_content: Content) -> None:
    content = replace(toy_content, node_names=["<i>&" for _ in range(90)])
    (drawing,) = brain.brain(content, make_scene((1.0, 0.0, 0.0, 0.0), []))
    assert 'title="&lt;i&gt;&amp;"' in drawing.html and "<i>" not in drawing.html
    (nothing,) = brain.brain(content, make_scene((0.0, 0.0, 0.0, 0.0), []))
    assert "title=" not in nothing.html


def test_pointing_at_a_dot_of_a_glass_brain_names_its_region(visit: Visit, toy_content: Content) -> None:
    figure = visit.page.locator("details.card[open] figure:has(.named)").first
    figure.scroll_into_view_if_needed()
    dots = figure.locator(".named i")
    assert dots.count() >= 6
    image, cover = (figure.locator(part).bounding_box() for part in ("img", ".named"))
    assert cover == pytest.approx(image)
    box = dots.first.bounding_box()
    title = visit.page.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).title",
        [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2],
    )
    assert title in toy_content.node_names
    assert visit.errors == []


@pytest.mark.parametrize("how", ["hover", "click"])
def test_pointing_at_a_region_in_three_dimensions_names_it_its_network_and_its_edges(
    visit: Visit,
    toy_content: Content,
    how: str,
) -> None:
    visit.page.locator("#scene-chooser").select_option(index=2)
    visit.page.locator("#connectome-viewer button[data-view=top]").click()
    visit.pixels(BRAIN)
    place: Any = visit.page.locator(BRAIN).evaluate("(canvas) => ({ x: canvas.points[20].x, y: canvas.points[20].y })")
    getattr(visit.page.locator(BRAIN), how)(position=place)
    words = visit.page.locator("#connectome-viewer output").inner_text()
    name, network = re.match(r"(\S+) \((.+?)\): ", words).groups()
    explanation = next(m.explanation for m in toy_content.methods if m.explanation is not None)
    assert network == explanation.networks[toy_content.node_names.index(name)]
    assert "edges to" in words or "of the largest weight" in words
    assert visit.errors == []
