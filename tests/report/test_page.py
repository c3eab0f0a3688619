"""The page is one file, complete, escaped, and readable without eyes."""

import base64
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from isocapsnet._validation import InputError
from isocapsnet.evaluation.metrics import roc_auc
from isocapsnet.explanation.cards import Effect, EvidenceCard, Orientation, Window
from isocapsnet.explanation.reconstructions import Reconstructions
from isocapsnet.explanation.summary import Explanation
from isocapsnet.report.content import Content, ReportedMethod
from isocapsnet.report.evidence import Scene, card_scene, edge_scene
from isocapsnet.report.evidence_tables import regions_table, windows_table
from isocapsnet.report.figures import FIGURES
from isocapsnet.report.figures.brain import plot_scene, reconstruction
from isocapsnet.report.figures.comparison import plot_comparison
from isocapsnet.report.figures.drawing import Drawing, FigureKind
from isocapsnet.report.figures.style import MUTED, class_colours, new_figure
from isocapsnet.report.page import render
from isocapsnet.report.viewers import cortex_outline, pack_indices, pack_numbers, reconstruction_data


class Tags(HTMLParser):
    """All start tags with their attributes, and the text of headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((tag, ""))

    def handle_data(self, data: str) -> None:
        if self.headings and self.lasttag == self.headings[-1][0]:
            self.headings[-1] = (self.headings[-1][0], self.headings[-1][1] + data)


@pytest.fixture(scope="session")
def text(toy_page: Path) -> str:
    return toy_page.read_text()


@pytest.fixture(scope="session")
def tags(text: str) -> Tags:
    return Tags(text)


def data_of(text: str, name: str) -> object:
    return json.loads(re.search(rf'id="{name}">(.*?)</script>', text, flags=re.DOTALL)[1])


def unpack(packed: dict[str, object]) -> np.ndarray:
    numbers = np.frombuffer(base64.b64decode(str(packed["data"])), dtype="<f2").astype(float)
    return numbers.reshape(packed["shape"]) * packed["scale"]


def network_of(content: Content) -> ReportedMethod:
    return next(method for method in content.methods if method.explanation is not None)


def with_reconstructions(content: Content, graphs: Reconstructions) -> ReportedMethod:
    explanation = Explanation(["no", "yes"], 1, np.zeros((8, 8)), 0.0, reconstructions=graphs)
    return replace(content.methods[0], explanation=explanation)


def make_window(
    row: int, column: int, share: float, favours: int = 0, orders: tuple[list[int], list[int]] = ([0, 1], [0, 1])
) -> Window:
    return Window(row, column, share, Effect(1, 0, 2), [0.5, 0.5], favours, [Orientation(order, 1) for order in orders])


def make_card(matrix: list[list[float]], windows: list[Window]) -> EvidenceCard:
    return EvidenceCard(
        template=0, matrix=matrix, n_fits=3, n_left_out=0, n_separating=3, p_value=0.001, separation=1.0,
        effect=Effect(1, 0, 2), places=None, shape=None, windows=windows, regions=[], verdict="stable", sentence="",
    )  # fmt: skip


# -- the page as a whole ------------------------------------------------------------------------------------------


def test_page_has_every_section_and_links_to_each(tags: Tags) -> None:
    sections = [attributes["id"] for tag, attributes in tags.found if tag == "section"]
    links = [a["href"] for tag, a in tags.found if tag == "a" and not a["href"].startswith(("#main", "#card"))]
    assert sections == [
        "answer", "data", "comparison", "sites", "node-order", "learning-curve", "tuning", "methods", "predictions",
        "evidence", "reconstruction", "problems", "reproduce", "cite",
    ]  # fmt: skip
    assert links == [f"#{section}" for section in sections]


def test_page_refers_to_nothing_outside_itself(text: str, tags: Tags) -> None:
    for _, attributes in tags.found:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttpRequest", text)


def test_page_stays_far_below_ten_megabytes(toy_page: Path) -> None:
    assert toy_page.stat().st_size < 3_000_000


def test_headings_descend_one_level_at_a_time(tags: Tags) -> None:
    levels = [int(tag[1]) for tag, _ in tags.headings]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert all(heading.strip() for _, heading in tags.headings)


def test_ids_are_unique_also_inside_figures(tags: Tags) -> None:
    counts = Counter(attributes["id"] for _, attributes in tags.found if "id" in attributes)
    assert {name for name, count in counts.items() if count > 1} == set()


def test_every_reference_inside_a_figure_finds_its_target(text: str, tags: Tags) -> None:
    known = {attributes["id"] for _, attributes in tags.found if "id" in attributes}
    referred = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text))
    assert {name for pair in referred for name in pair if name} <= known


def test_every_figure_has_a_text_alternative_and_a_caption(text: str, tags: Tags) -> None:
    images = [attributes for tag, attributes in tags.found if tag == "img"]
    drawings = [attributes for tag, attributes in tags.found if tag == "svg"]
    assert len(images) >= 3 and len(drawings) >= 10
    assert all(len(image["alt"] or "") > 20 for image in images)
    assert all(drawing["role"] == "img" and len(drawing["aria-label"] or "") > 20 for drawing in drawings)
    assert text.count("<figure") == text.count("<figcaption>") == len(images) + len(drawings)


def test_text_of_data_is_escaped_everywhere(text: str) -> None:
    assert "MemoryError: not enough &lt;memory&gt; &amp; time" in text
    assert "<memory>" not in text and "<few>" not in text


def test_hostile_names_reach_the_page_as_text(toy_content: Content) -> None:
    evil = '</script><script>alert("x")</script>'
    names = (evil, *toy_content.node_names[1:])
    passport = {**toy_content.passport, "name": evil}
    content = replace(
        toy_content,
        node_names=names,
        coordinates=None,
        passport=passport,
        classes=[evil, "case"],
        methods=[replace(method, fits=()) for method in toy_content.methods if method.cards],
    )
    page = render(content)
    assert evil not in page and page.count("&lt;/script&gt;") > 5
    assert page.count("<script") == 4


def test_equal_contents_give_equal_pages_and_every_figure_is_shown_once(toy_content: Content) -> None:
    linear = replace(toy_content, methods=[toy_content.methods[0]])
    first, second = [], []
    assert render(linear, first.append) == render(linear, second.append)
    names = [drawing.name for drawing in first]
    assert len(set(names)) == len(names) and names == [drawing.name for drawing in second]


def test_figures_follow_the_colours_of_the_page() -> None:
    figure = plot_comparison(["a", "b"], [[0.6, 0.5, 0.7], [0.5, 0.4, 0.6]], band=0.1)
    first, second = (str(Drawing(name, figure, "", "x").html) for name in ("one", "two"))
    assert "var(--ink)" in first and "var(--muted)" in first and "var(--faint)" in first
    assert "#1a1d21" not in first and "<style" not in first and "<?xml" not in first
    assert set(re.findall(r'\bid="([^"]+)"', first)).isdisjoint(re.findall(r'\bid="([^"]+)"', second))


def test_a_new_figure_is_one_function_and_one_line_in_the_registry(
    toy_content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    def class_sizes(content: Content) -> Iterator[Drawing]:
        """Number of test graphs of each class."""
        counts = np.bincount(content.methods[0].labels)
        figure, (axis,) = new_figure(3, 2)
        axis.bar(content.classes, counts)
        yield Drawing("class-sizes", figure, "Test graphs of each class.", f"Test graphs: {counts.tolist()}.")

    monkeypatch.setitem(FIGURES, "class_sizes", FigureKind(class_sizes, "comparison"))
    content = replace(toy_content, methods=[toy_content.methods[0]])
    saved: list[Drawing] = []
    page = render(content, saved.append)
    section = re.search(r'<section id="comparison".*?</section>', page, flags=re.DOTALL)[0]
    assert '<figure id="figure-class-sizes">' in section and 'aria-label="Test graphs: [48, 48]."' in section
    assert [drawing.name for drawing in saved].count("class-sizes") == 1
    assert [bar.get_height() for bar in FIGURES["class_sizes"](content).axes[0].patches] == [48, 48]


def test_every_figure_of_the_registry_can_be_drawn_by_name(toy_content: Content) -> None:
    from matplotlib.figure import Figure

    for name in FIGURES.keys() - {"sweep", "first_templates", "carriers"}:
        assert isinstance(FIGURES[name](toy_content), Figure), name
    figure = FIGURES["roc"](toy_content, "linear")
    area = next(method for method in toy_content.methods if method.label == "linear").row.metrics["roc_auc"].mean
    assert figure.axes[0].get_title(loc="left") == f"ROC, mean AUC {area:.3f}"
    for name, which in (("sweep", None), ("roc", "gin"), ("roc", "gcn")):
        with pytest.raises(InputError, match="nothing to draw"):
            FIGURES[name](toy_content, which)


# -- its parts ----------------------------------------------------------------------------------------------------


def test_results_table_holds_each_method_with_its_verdict(text: str, toy_content: Content) -> None:
    table = re.search(r'<table id="results".*?</table>', text, flags=re.DOTALL)[0]
    for method in toy_content.methods:
        area = method.row.metrics["roc_auc"].mean
        shown = 'data-value=""' if np.isnan(area) else f'data-value="{area}"'
        assert f">{method.label}</th>" in table and shown in table
        assert method.row.verdict.split("<")[0] in table


def test_page_gives_command_digest_versions_and_seeds(text: str, toy_content: Content) -> None:
    assert "isocapsnet benchmark study.npz --audit node-order" in text
    assert toy_content.passport["digest"] in text
    assert "2.13.0" in text and "seeds" in text


def test_failed_method_has_a_section_that_says_so(text: str) -> None:
    section = re.search(r'<details id="method-gcn".*?</details>', text, flags=re.DOTALL)[0]
    assert "No job of this method finished" in section and "1 of 1 jobs failed" in section


def test_cards_call_the_planted_template_stable_and_name_its_regions(text: str, toy_content: Content) -> None:
    first = re.search(r'<details class="card" id="card-isocapsnet-1".*?\n</details>', text, flags=re.DOTALL)[0]
    second = re.search(r'<details class="card" id="card-isocapsnet-2".*?\n</details>', text, flags=re.DOTALL)[0]
    assert '<span class="badge stable">stable</span>' in first
    assert '<span class="badge unstable">not stable</span>' in second
    regions = re.findall(r'<th scope="row">(.*?)</th>', first)
    assert set(regions[:4]) == set(toy_content.node_names[20:24])
    card = next(method for method in toy_content.methods if method.cards).cards[0]
    assert [row[4].text for row in regions_table(toy_content, card, "card").rows[:4]] == ["case"] * 4


def test_cards_give_the_orientation_of_each_class_in_each_window(toy_content: Content) -> None:
    card = next(method for method in toy_content.methods if method.cards).cards[0]
    first = windows_table(toy_content, card, "card").rows[0]
    assert first[0].text == f"{toy_content.node_name(20)} to {toy_content.node_name(23)}"
    score, order = (first[place].text.replace("\u00a0", " ").replace("\u2011", "-") for place in (3, 4))
    assert score == "control 0.20, case 0.90"
    assert order == "control 1-2-3-4 (80%), case 4-3-2-1 (80%)"


def test_viewer_gets_the_same_scenes_as_the_cards(text: str) -> None:
    data = data_of(text, "connectome-data")
    assert [scene["title"] for scene in data["scenes"]] == [
        "isocapsnet, template 1", "isocapsnet, template 2", "isocapsnet, edges",
    ]  # fmt: skip
    assert sorted(data["scenes"][0]["top"]) == [20, 21, 22, 23]
    assert data["scenes"][2]["edges"] == [[20, 21, 1.0], [20, 23, -0.5]]
    assert len(unpack(data["coordinates"])) == len(data["scenes"][0]["nodes"]) == 90


def test_viewer_gets_the_matrices_of_the_listed_subjects(text: str, toy_content: Content) -> None:
    (data,) = data_of(text, "reconstruction-data")
    found = next(method.explanation for method in toy_content.methods if method.explanation).reconstructions
    assert found is not None
    assert unpack(data["inputs"]) == pytest.approx(found.inputs, abs=1e-3)
    options = re.findall(r'<option value="0:(\d+)">(.*?)</option>', text)
    assert {int(place): name for place, name in options} == dict(enumerate(found.subjects))


def test_without_coordinates_there_are_cards_but_no_brain(toy_content: Content) -> None:
    network = next(method for method in toy_content.methods if method.cards)
    page = render(replace(toy_content, coordinates=None, methods=[replace(network, fits=())]))
    assert 'id="card-isocapsnet-1"' in page
    assert 'id="connectome-viewer"' not in page and "data-scene" not in page.split("<script")[0]
    assert "no coordinates" in page


def test_a_content_without_anything_is_still_a_page(toy_content: Content) -> None:
    drawn: list[object] = []
    page = render(replace(toy_content, methods=[], sweep=None), drawn.append)
    assert "There is no answer" in page
    assert drawn == []


# -- what it is made of -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [1e-6, 1.0, 2_263_337.0])
def test_packed_numbers_keep_three_digits_at_any_magnitude(largest: float) -> None:
    values = largest * np.array([[1.0, -0.5, 0.123456], [1e-3, 0.0, -2e-4]])
    assert unpack(pack_numbers(values)) == pytest.approx(values, rel=1e-3)


def test_packed_zeros_and_indices_survive() -> None:
    assert unpack(pack_numbers(np.zeros((2, 2)))).tolist() == [[0, 0], [0, 0]]
    packed = pack_indices([[0, 65535], [7, 8]])
    assert np.frombuffer(base64.b64decode(packed["data"]), "<u2").tolist() == [0, 65535, 7, 8]


def test_cortex_is_a_closed_surface_of_two_hemispheres_and_small() -> None:
    outline = cortex_outline()
    vertices = unpack(outline["vertices"])
    triangles = np.frombuffer(base64.b64decode(outline["triangles"]["data"]), "<u2").reshape(-1, 3)
    edges = Counter(tuple(sorted(pair)) for a, b, c in triangles.tolist() for pair in ((a, b), (b, c), (c, a)))
    assert set(edges.values()) == {2}
    assert len(vertices) - len(edges) + len(triangles) == 4  # Euler: 2 for each closed surface without holes
    assert vertices[: len(vertices) // 2, 0].mean() < -20 < 20 < vertices[len(vertices) // 2 :, 0].mean()
    assert len(json.dumps(outline)) < 150_000


def test_scene_lays_the_template_on_its_regions_in_the_orientation_of_the_favoured_class() -> None:
    window = make_window(3, 6, 0.5, favours=1, orders=([0, 1], [1, 0]))
    against = replace(window, row=0, column=0, share=-0.4)
    card = make_card([[0.0, 1.0], [0.0, 0.0]], [against, window])
    # Turned, entry (1, 0) of the window holds template[0, 1]: the edge between nodes 3 + 1 and 6 + 0.
    edges = card_scene(card, 9, "t").edges
    assert np.argwhere(edges).tolist() == [[4, 6], [6, 4]]


def test_scene_draws_the_three_windows_that_separate_most_each_by_its_share() -> None:
    windows = [make_window(4 * index, 4 * index, share) for index, share in enumerate([0.1, 0.4, 0.2, 0.3])]
    edges = card_scene(make_card([[0, 1.0], [1.0, 0]], windows), 16, "t").edges
    assert [edges[4 * index, 4 * index + 1] for index in range(4)] == pytest.approx([0, 1, 0.5, 0.75])


def test_regions_on_the_glass_brain_have_the_colour_of_their_class() -> None:
    from matplotlib.colors import to_hex

    coordinates = np.array([[-40.0, 0, 20], [40, 10, 0], [0, -60, 10]])
    scene = Scene("t", "", np.ones(3), np.array([0, 1, -1]), np.zeros((3, 3)))
    (points,) = plot_scene(scene, coordinates, 2).axes[-1].collections
    expected = [colour.lower() for colour in (*class_colours(2), MUTED)]
    assert [to_hex(colour) for colour in points.get_facecolors()] == expected


def test_chance_band_holds_the_mean_of_an_uninformative_method_95_times_in_100(toy_content: Content) -> None:
    (band,) = FIGURES["comparison"](toy_content).findobj(lambda artist: artist.get_gid() == "chance-band")
    rng, labels = np.random.default_rng(0), toy_content.methods[0].fits[0].labels
    scores = rng.normal(size=(2800, len(labels)))
    areas = np.array([roc_auc(labels, np.stack([-score, score], axis=1)) for score in scores]) - 0.5
    # Folds that share training graphs correlate by test / (test + train), as the corrected tests assume.
    shared = toy_content.table.test_over_train / (1 + toy_content.table.test_over_train)
    together = np.sqrt(1 - shared) * areas[:2400].reshape(400, 6) + np.sqrt(shared) * areas[2400:, None]
    assert 0.95 <= np.mean(np.abs(together.mean(axis=1)) < band.get_width() / 2) <= 0.995


def test_scene_of_an_attribution_keeps_the_strongest_edges_with_their_signs(toy_content: Content) -> None:
    scene = edge_scene(network_of(toy_content).explanation, "edges")
    assert scene.edges[20, 21] == 1.0 and scene.edges[23, 20] == -0.5
    assert scene.top == [20, 21, 23]


def test_similarity_is_that_to_own_inputs_and_to_those_of_others(toy_content: Content) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(3, 8, 8))
    inputs += inputs.swapaxes(1, 2)
    found = Reconstructions(["a", "b", "c"], np.array([0, 1, 1]), inputs, 2 * inputs + 1, n_available=3)
    own, others = found.similarity()
    edges = np.triu_indices(8, k=1)
    pairs = [np.corrcoef(inputs[i][edges], inputs[j][edges])[0, 1] for i in range(3) for j in range(3) if i != j]
    assert (own, others) == (pytest.approx(1), pytest.approx(np.mean(pairs)))
    mean = replace(found, outputs=np.broadcast_to(inputs.mean(axis=0), inputs.shape))
    assert mean.similarity()[0] < 1
    single = replace(found, subjects=["a"], labels=np.array([0]), inputs=inputs[:1], outputs=inputs[:1])
    assert np.isnan(single.similarity()[1])
    (drawing,) = reconstruction(replace(toy_content, coordinates=None), with_reconstructions(toy_content, found))
    assert f"1.00 with its own graph and {np.mean(pairs):.2f}".replace("-", "−") in drawing.caption


def test_page_keeps_as_many_reconstructions_as_fit_and_both_classes(toy_content: Content) -> None:
    n_graphs, n_nodes = 40, 200
    graphs = np.zeros((n_graphs, n_nodes, n_nodes), dtype=np.float32)
    labels = np.array([0] * 35 + [1] * 5)
    found = Reconstructions([f"s{i}" for i in range(n_graphs)], labels, graphs, graphs, n_available=90)
    content = replace(toy_content, methods=[with_reconstructions(toy_content, found)])
    (listed,), (packed,) = reconstruction_data(content)
    assert len(packed["inputs"]["data"]) + len(packed["outputs"]["data"]) <= 2_000_000
    assert listed["shown"] + listed["left_out"] == 90
    assert [name for name, _ in listed["groups"]] == ["control", "case"]
    assert {len(members) for _, members in listed["groups"]} == {4, 5}
