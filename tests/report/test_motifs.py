"""Motifs on the page: their pattern, their carriers, and where they lie."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isocapsnet._validation import InputError
from isocapsnet.explanation.cards import Agreement, Carrier, Effect, MotifCard
from isocapsnet.report.content import Content
from isocapsnet.report.evidence import list_scenes, motif_scene
from isocapsnet.report.evidence_tables import carriers_table, motif_regions_table
from isocapsnet.report.figures import FIGURES
from isocapsnet.report.page import render
from tests.report.toys import network_alone

MATRIX = [[0.0, 1.5, -0.5], [1.5, 0.0, 0.25], [-0.5, 0.25, 0.0]]
CARRIERS = [Carrier(f"<s{number}>", number % 2, 0.5 + number, [number, 40, 7]) for number in range(6)]
SHARES = np.bincount(np.concatenate([carrier.nodes for carrier in CARRIERS]), minlength=90) / 6
CARD = MotifCard(
    motif=0, matrix=MATRIX, learned=(2 * np.array(MATRIX)).tolist(), unit="units of the edges", n_members=5,
    importance=0.8, n_fits=6, n_left_out=1, n_without=2, n_separating=4, p_value=0.3,
    effect=Effect(0.9, 0.5, 1.3), shape=Agreement(0.97, 0.9, 0.005), n_graphs=[24, 24], n_carriers=[3, 3],
    favours=1, region_shares=SHARES.tolist(), carriers=CARRIERS, verdict="not stable", sentence="Not stable: <why>.",
)  # fmt: skip
TITLE = "isocapsnet, motif 1"


@pytest.fixture(scope="module")
def content(toy_content: Content) -> Content:
    network = network_alone(toy_content)
    explanation = replace(network.explanation, motif_cards=[CARD], cards=[], notes=["The weight is <0>."])
    return replace(toy_content, methods=[replace(network, explanation=explanation)])


def test_a_motif_lies_on_the_regions_of_its_carriers_and_is_drawn_in_the_clearest() -> None:
    scene = motif_scene(CARD, ["control", "case"], "a motif")
    assert scene.nodes[40] == 1 and scene.nodes[3] == pytest.approx(1 / 6) and scene.nodes[80] == 0
    assert (scene.favours[40], scene.favours[80]) == (1, -1)
    assert scene.edges[0, 40] == scene.edges[40, 0] == 1.5 and scene.edges[40, 7] == 0.25
    assert np.count_nonzero(scene.edges) == 6
    assert scene.is_doubtful
    facts = dict(scene.facts)
    assert facts["carriers"] == "control: 3 of 24 (12%), case: 3 of 24 (12%)"
    assert facts["separates the classes"].startswith("in 4 of 6 fits")
    assert "%" not in facts["spread of its contribution to the class scores"]
    assert facts["same shape in other fits"].startswith("r = 0.97")
    assert "1 fits with motifs" in facts["not comparable"]


def test_a_motif_without_carriers_has_no_edges() -> None:
    nowhere = replace(CARD, carriers=[], n_carriers=[0, 0], region_shares=[0.0] * 90)
    scene = motif_scene(nowhere, ["control", "case"], "a motif")
    assert not scene.edges.any() and not scene.nodes.any() and (scene.favours == -1).all()


def test_the_page_has_the_motif_its_carriers_and_the_note(content: Content) -> None:
    page = render(content)
    assert f'<details class="card" id="{list_scenes(content)[0].id}"' in page
    assert "The weight is &lt;0&gt;." in page and "Not stable: &lt;why&gt;." in page and "&lt;s3&gt;" in page
    assert "<why>" not in page
    assert "A motif is a template without a fixed position" in page
    for name in ("pattern", "template", "brain", "carriers"):
        assert f'id="figure-card-isocapsnet-motif-1-{name}"' in page, name
    assert page.count("Learned templates of the first fold") == 0


def test_a_page_without_motifs_says_nothing_about_them(toy_page: Path) -> None:
    assert "motif" not in toy_page.read_text().lower()


def test_tables_name_the_region_of_each_node(content: Content) -> None:
    table = carriers_table(content, CARD, "card")
    assert table.columns == ["subject", "class", "distance", "node 1", "node 2", "node 3"]
    assert [str(cell.text) for cell in table.rows[2]][:2] == ["<s2>", content.classes[0]]
    assert [str(cell.text) for cell in table.rows[2]][3:] == [content.node_name(node) for node in (2, 40, 7)]
    regions = motif_regions_table(content, CARD, "card")
    assert {str(row[0].text) for row in regions.rows[:2]} == {content.node_name(40), content.node_name(7)}
    assert regions.rows[0][1].value == 1


def test_the_carriers_are_drawn_with_the_numbers_of_the_motifs_nodes(content: Content) -> None:
    from matplotlib.text import Text

    figure = FIGURES["carriers"](content, TITLE)
    texts = [artist.get_text() for artist in figure.findobj(Text)]
    assert [text for text in texts if text.startswith("<s")] == [
        f"{carrier.subject} ({content.classes[carrier.label]})" for carrier in CARRIERS[:4]
    ]
    assert texts.count("1") == texts.count("3") == 4
    with pytest.raises(InputError, match="nothing to draw"):
        FIGURES["carriers"](content, "isocapsnet, edges")


def test_the_pattern_is_drawn_before_the_learned_template(content: Content) -> None:
    from matplotlib.text import Text

    [scene] = [scene for scene in list_scenes(content) if scene.title == TITLE]
    first, second = FIGURES["template"].draw(content, scene)
    assert "1.50" in [artist.get_text() for artist in first.figure.findobj(Text)]
    assert "3.00" in [artist.get_text() for artist in second.figure.findobj(Text)]
    assert "units of the edges" in first.caption


def test_dots_are_small_if_every_carrier_has_the_motif_elsewhere(content: Content) -> None:
    from isocapsnet.report.figures.brain import plot_scene

    scene = motif_scene(CARD, content.classes, "a motif")
    spread = replace(scene, nodes=np.full(90, 0.05))
    sizes = [
        max(part.get_sizes().max() for axis in plot_scene(one, content.coordinates, 2).axes for part in axis.collections
            if len(part.get_sizes()))
        for one in (scene, spread)
    ]  # fmt: skip
    assert sizes == pytest.approx([60, 6])
