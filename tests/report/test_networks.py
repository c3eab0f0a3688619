"""The page says which networks the important edges join, if the atlas of the data has networks."""

import re
from dataclasses import replace

import numpy as np

from isocapsnet.datasets.atlas import load_atlas
from isocapsnet.report.content import Content
from isocapsnet.report.evidence import edge_scene
from isocapsnet.report.networks import networks_table
from isocapsnet.report.page import render
from tests.report.toys import network_alone


def with_networks(content: Content, networks, partition: str = "") -> Content:
    network = network_alone(content)
    explanation = replace(network.explanation, networks=networks, partition=partition)
    return replace(content, coordinates=None, methods=[replace(network, explanation=explanation)])


def test_a_folder_with_an_atlas_has_the_networks_of_yeo(toy_content: Content) -> None:
    explanation = next(m.explanation for m in toy_content.methods if m.explanation is not None)
    assert explanation.partition == "yeo7"
    assert explanation.networks == load_atlas("aal90").networks["yeo7"]
    table = networks_table(explanation, edge_scene(explanation, "edges"))
    assert "yeo7" in table.caption
    rows = {cells[0].text: [cell.value for cell in cells[1:]] for cells in table.rows}
    pairs = explanation.network_table
    strongest = pairs.iloc[0]
    name = f"{strongest['first']} – {strongest['second']}"
    assert rows[name if strongest["first"] != strongest["second"] else f"within {strongest['first']}"] == [
        strongest["strongest"],
        strongest["share"],
        strongest["expected"],
    ]


def test_the_table_is_on_the_page_and_escaped_and_absent_without_networks(toy_content: Content) -> None:
    names = np.where(np.arange(90) < 45, "<front>", "back").tolist()
    page = render(with_networks(toy_content, names, "own & made"))
    assert "Networks that the important edges join (own &amp; made)" in page
    assert "within &lt;front&gt;" in page and "<front>" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "Networks that" not in render(with_networks(toy_content, None))
