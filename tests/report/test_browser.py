"""A real browser opens the report: nothing breaks, nothing is fetched, everything that moves can be moved."""

import re
import zlib
from colorsys import rgb_to_hsv
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from isocapsnet.report.figures.style import NEGATIVE, POSITIVE, class_colours
from tests.report.browsing import Visit


def is_like(colour: tuple[int, int, int], wanted: str) -> bool:
    """Whether a pixel has the hue of ``wanted`` (``#rrggbb``), however pale or dark fading made it."""
    hues = [rgb_to_hsv(*(channel / 255 for channel in c)) for c in (colour, bytes.fromhex(wanted[1:]))]
    distance = abs(hues[0][0] - hues[1][0])
    return hues[0][1] > 0.15 and min(distance, 1 - distance) < 0.04


BRAIN = "#connectome-viewer canvas[tabindex]"
CORTEX = "#connectome-viewer canvas[aria-hidden]"
MATRICES = [f"#reconstruction-viewer [data-matrix]:nth-child({number}) canvas" for number in (1, 2, 3)]


def test_page_loads_without_errors_and_asks_nobody_for_anything(visit: Visit, toy_page: Path) -> None:
    visit.page.wait_for_timeout(300)
    assert visit.errors == []
    assert visit.requests == [toy_page.as_uri()] or set(visit.requests) == {toy_page.as_uri(), "data:,"}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_page_fits_its_width_and_has_no_serious_accessibility_violation(
    browser: Any, toy_page: Path, width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    visited = Visit(browser, toy_page, width, scheme)
    visited.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert visited.page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(visited.page).response["violations"]
    serious = {v["id"]: v["nodes"][0]["html"][:200] for v in found if v["impact"] in ("serious", "critical")}
    assert serious == {}
    assert visited.errors == []
    visited.context.close()


def test_long_names_of_facts_leave_room_for_their_values(browser: Any, toy_page: Path) -> None:
    visited = Visit(browser, toy_page, 1040)
    widths = visited.page.evaluate(
        """() => {
            for (const name of document.querySelectorAll('.card .facts dt')) name.textContent = 'long name '.repeat(6);
            return [...document.querySelectorAll('details.card[open] .facts dd')].map((value) => value.clientWidth);
        }"""
    )
    assert len(widths) > 0 and min(widths) > 100
    visited.context.close()


def test_tables_sort_up_and_down_by_number_and_say_so(visit: Visit) -> None:
    head = visit.page.locator("#results thead th").nth(2)
    before = visit.column("results", 1)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    shown = [float(text.split()[0]) for text in visit.column("results", 3) if text != "–"]
    assert shown == sorted(shown) and visit.column("results", 1) != before
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    shown = [float(text.split()[0]) for text in visit.column("results", 3) if text != "–"]
    assert shown == sorted(shown, reverse=True)


def test_rows_without_a_number_stay_last_in_both_directions(visit: Visit) -> None:
    button = visit.page.locator("#results thead th").nth(2).locator("button")
    for _ in range(2):
        button.click()
        assert visit.column("results", 1)[-1] == "gcn"


def test_tables_sort_by_keyboard_and_by_word(visit: Visit) -> None:
    visit.page.locator("#results thead th").nth(0).locator("button").focus()
    visit.page.keyboard.press("Enter")
    assert visit.column("results", 1) == ["constant", "gcn", "isocapsnet", "linear"]


def test_filter_keeps_rows_with_all_words_and_counts_them(visit: Visit) -> None:
    everything = visit.column("results", 1)
    field = visit.page.get_by_label("Filter").first
    field.fill("LINEAR above")
    kept = visit.page.locator("#results tbody tr:visible").all_inner_texts()
    assert 0 < len(kept) < len(everything)
    assert all("linear" in row and "above" in row for row in kept)
    assert f"{len(kept)} of {len(everything)} rows" in visit.page.locator(".filter").first.inner_text()
    field.fill("")
    assert visit.column("results", 1) == everything


def test_choosing_a_subject_changes_all_three_matrices(visit: Visit) -> None:
    before = [visit.pixels(selector) for selector in MATRICES]
    assert len(set(before)) == 3
    visit.page.locator("#subject-chooser").select_option(index=3)
    after = [visit.pixels(selector) for selector in MATRICES]
    assert all(one != other for one, other in zip(before, after, strict=True))
    visit.page.locator("#reconstruction-viewer button[data-step='-1']").click()
    visit.page.locator("#reconstruction-viewer button[data-step='1']").click()
    assert [visit.pixels(selector) for selector in MATRICES] == after


def test_values_are_read_by_pointer_and_by_keyboard(visit: Visit) -> None:
    told = visit.page.locator("#reconstruction-viewer output")
    visit.page.locator(MATRICES[0]).scroll_into_view_if_needed()
    visit.page.locator(MATRICES[0]).hover(position={"x": 40, "y": 80})
    visit.pixels(MATRICES[0])
    words = told.inner_text()
    assert "input" in words and "reconstruction" in words and "difference" in words
    visit.page.locator(MATRICES[2]).focus()
    visit.page.keyboard.press("ArrowRight")
    visit.pixels(MATRICES[0])
    assert told.inner_text() != words


def test_values_under_the_cursor_are_those_of_the_data(visit: Visit, toy_content: Any) -> None:
    graphs = next(method.explanation for method in toy_content.methods if method.explanation).reconstructions
    index = int(visit.page.locator("#subject-chooser").input_value().split(":")[1])
    visit.page.locator(MATRICES[0]).focus()
    for _ in range(5):
        visit.page.keyboard.press("ArrowRight")
    visit.pixels(MATRICES[0])
    words = visit.page.locator("#reconstruction-viewer output").inner_text().replace("−", "-")
    names = toy_content.node_names
    assert words.startswith(f"{names[0]} – {names[5]}: ")
    values = [float(words.split(f"{name} ")[1].split(",")[0]) for name in ("input", "reconstruction", "difference")]
    first, second = float(graphs.inputs[index][0, 5]), float(graphs.outputs[index][0, 5])
    assert values == pytest.approx([first, second, second - first], rel=5e-3, abs=2e-3)


def test_logarithmic_colours_change_the_matrices(visit: Visit) -> None:
    before = visit.pixels(MATRICES[0])
    visit.page.locator("#reconstruction-viewer input[type=checkbox]").check()
    assert visit.pixels(MATRICES[0]) != before


def test_connectome_is_drawn_and_turns_by_pointer_keys_and_buttons(visit: Visit) -> None:
    assert not visit.is_blank(BRAIN)
    assert not visit.is_blank(CORTEX)
    seen = {visit.pixels(BRAIN)}
    visit.page.locator(BRAIN).focus()
    visit.page.keyboard.press("ArrowLeft")
    seen.add(visit.pixels(BRAIN))
    visit.page.locator("#connectome-viewer button[data-view=top]").click()
    seen.add(visit.pixels(BRAIN))
    visit.page.locator("#connectome-viewer button[aria-label=closer]").click()
    seen.add(visit.pixels(BRAIN))
    visit.page.locator(BRAIN).scroll_into_view_if_needed()
    box = visit.page.locator(BRAIN).bounding_box()
    visit.page.mouse.move(box["x"] + 200, box["y"] + 200)
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] + 260, box["y"] + 230, steps=4)
    visit.page.mouse.up()
    seen.add(visit.pixels(BRAIN))
    assert len(seen) == 5
    visit.page.keyboard.press("Home")
    assert visit.errors == []


def test_connectome_shows_regions_in_the_colour_of_their_class_and_edges_in_that_of_their_sign(visit: Visit) -> None:
    for view in ("left", "top"):
        visit.page.locator("#scene-chooser").select_option(index=0)
        visit.page.locator(f"#connectome-viewer button[data-view={view}]").click()
        visit.pixels(BRAIN)
        nodes = visit.colours(
            BRAIN, "(canvas) => [20, 21, 22, 23].map((i) => [canvas.points[i].x, canvas.points[i].y])"
        )
        assert any(is_like(colour, class_colours(2)[1]) for colour in nodes), (view, nodes)
        assert not any(is_like(colour, class_colours(2)[0]) for colour in nodes)
    visit.page.locator("#scene-chooser").select_option(index=2)
    visit.page.locator("#connectome-viewer button[data-view=front]").click()
    visit.pixels(BRAIN)
    positive, negative = (
        visit.colours(
            BRAIN,
            f"""(canvas) => [0.3, 0.4, 0.5, 0.6, 0.7].map((share) => ["x", "y"].map((axis) =>
                (1 - share) * canvas.points[20][axis] + share * canvas.points[{other}][axis]))""",
        )
        for other in (21, 23)
    )
    assert any(is_like(colour, POSITIVE) for colour in positive)
    assert any(is_like(colour, NEGATIVE) for colour in negative)


def test_connectome_returns_to_where_it_began(visit: Visit) -> None:
    before = visit.pixels(BRAIN)
    visit.page.locator(BRAIN).focus()
    for key in ("ArrowUp", "ArrowRight", "+"):
        visit.page.keyboard.press(key)
    assert visit.pixels(BRAIN) != before
    visit.page.keyboard.press("Home")
    assert visit.pixels(BRAIN) == before


def test_cards_share_one_viewer_and_switch_it(visit: Visit) -> None:
    assert visit.page.locator("#connectome-viewer").count() == 1
    before, words = visit.pixels(BRAIN), visit.page.locator("#connectome-viewer output").inner_text()
    button = visit.page.locator("#card-isocapsnet-2 button[data-scene]")
    visit.page.locator("#card-isocapsnet-2 > summary").click()
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert visit.page.locator("#card-isocapsnet-1 button[data-scene]").get_attribute("aria-pressed") == "false"
    assert visit.page.locator("#scene-chooser").input_value() == "isocapsnet, template 2"
    assert visit.pixels(BRAIN) != before
    assert visit.page.locator("#connectome-viewer output").inner_text() != words


def test_skip_link_is_the_first_stop_of_the_keyboard(visit: Visit) -> None:
    visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("document.activeElement.className") == "skip"
    assert visit.page.locator(".skip").bounding_box()["x"] >= 0
    visit.page.keyboard.press("Enter")
    assert visit.page.url.endswith("#main")


def test_printing_opens_every_section(visit: Visit) -> None:
    assert visit.page.locator("details:not([open])").count() > 0
    assert visit.page.pdf().startswith(b"%PDF")
    assert visit.page.locator("details:not([open])").count() == 0


def test_the_heading_of_a_long_table_is_on_every_printed_page(visit: Visit) -> None:
    visit.page.evaluate(
        """() => {
            const table = document.querySelector("#subject-predictions");
            const rows = [...table.tBodies[0].rows];
            for (let i = 0; i < 5; i += 1) table.tBodies[0].append(...rows.map((row) => row.cloneNode(true)));
            for (const row of table.tBodies[0].rows) row.classList.remove("screen-only");
            table.tHead.querySelector("button").textContent = "z".repeat(12);
        }"""
    )
    pages = 0
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", visit.page.pdf(), re.DOTALL):
        with suppress(zlib.error):
            glyphs = b"".join(re.findall(rb"<([0-9A-Fa-f]+)> Tj", zlib.decompress(stream)))
            pages += re.search(rb"([0-9A-Fa-f]{4})\1{11}", glyphs) is not None  # twelve times the same letter
    assert pages >= 6  # 288 rows


def test_copy_button_puts_the_text_on_the_clipboard(visit: Visit) -> None:
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.page.get_by_role("button", name="Copy").last.click()
    visit.page.get_by_role("button", name="Copied").wait_for()
    assert visit.page.evaluate("navigator.clipboard.readText()").startswith("@article{zhang2022isocapsnet")


def test_page_without_webgl_still_draws_regions_and_edges(browser: Any, toy_page: Path) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(
        "const original = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        "  return kind === 'webgl' ? null : original.call(this, kind, ...rest); };"
    )
    visited = Visit.__new__(Visit)
    visited.page, errors = context.new_page(), []
    visited.page.on("pageerror", lambda error: errors.append(str(error)))
    visited.page.goto(toy_page.as_uri())
    assert not visited.is_blank(BRAIN)
    assert errors == []
    context.close()
