"""In a real browser, the answer comes first, and all parts can be saved, printed and read without scripts."""

import csv
import io
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from isocapsnet.report.figures.drawing import VARIABLES
from isocapsnet.report.figures.style import METHODS
from tests.report.browsing import Visit

SAVE_RESULTS = "#comparison .table-block:has(#results) .downloads button:first-of-type"


def test_the_curve_over_sample_size_is_shown_and_its_numbers_unfold(visit: Visit, toy_content: Any) -> None:
    assert visit.page.locator("#learning-curve svg").is_visible()
    visit.page.locator("#learning-curve summary").press("Enter")
    curve = next(method for method in toy_content.methods if method.label == "linear").row.curve
    assert visit.column("sample-sizes", 3) == ["16", "32"]
    shown = [float(text.split()[0]) for text in visit.column("sample-sizes", 4)]
    assert shown == pytest.approx([point.area.mean for point in curve], abs=6e-4)


@pytest.mark.parametrize(("width", "last"), [(1280, "#figure-comparison-roc-auc svg"), (400, ".key-figures")])
def test_first_screen_has_the_question_the_verdict_and_the_numbers(
    browser: Any, toy_page: Path, width: int, last: str
) -> None:
    visited = Visit(browser, toy_page, width)
    for selector in ("h1", ".question", ".verdict", ".key-figures", last):
        box = visited.page.locator(selector).bounding_box()
        assert box is not None and box["y"] + box["height"] <= 900, selector
    words = visited.page.locator("#answer").inner_text()
    assert "control (24) and case (24)" in words and "ROC AUC of" in words and "minus linear" in words
    sizes = visited.page.evaluate(
        """['.verdict', '.key-figures strong', 'h1'].map(
            (name) => parseFloat(getComputedStyle(document.querySelector(name)).fontSize))"""
    )
    assert min(sizes[:2]) > sizes[2]
    visited.context.close()


def test_passport_and_all_cards_but_one_are_folded(visit: Visit) -> None:
    assert not visit.page.get_by_text("sha256:").first.is_visible()
    visit.page.get_by_text("Passport of the data").press("Enter")
    assert visit.page.get_by_text("sha256:").first.is_visible()
    assert visit.page.locator("details.card[open]").count() == 1


def test_the_summary_of_evidence_leads_to_a_card_and_opens_it(visit: Visit) -> None:
    card = visit.page.locator("#card-isocapsnet-2")
    assert card.get_attribute("open") is None
    visit.page.locator("#evidence-summary a", has_text="template 2").press("Enter")
    card.locator(".facts").first.wait_for()
    assert card.get_attribute("open") is not None


def test_predictions_are_sorted_by_keyboard_and_filtered(visit: Visit) -> None:
    table = visit.page.locator("#subject-predictions")
    button = table.locator("thead th", has_text="linear").first.locator("button")
    button.press("Enter")
    column = 1 + visit.page.locator("#subject-predictions thead th").all_inner_texts().index(
        next(text for text in table.locator("thead th").all_inner_texts() if text.startswith("linear"))
    )
    shown = [float(text.split()[0]) for text in visit.column("subject-predictions", column)]
    assert shown == sorted(shown) and len(shown) == 48
    visit.page.locator("#subject-predictions-filter").fill("south control")
    assert len(visit.column("subject-predictions", 1)) == 12


def test_a_figure_is_saved_as_svg_in_the_colours_of_a_light_page(browser: Any, toy_page: Path) -> None:
    visited = Visit(browser, toy_page, 1280, "dark")
    text = visited.saved("#figure-all-roc .downloads button")
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and "var(" not in text
    assert METHODS[1] in text and "false positive rate" in "".join(root.itertext())
    assert visited.page.get_by_role("button", name="Save figure all-roc as SVG").count() == 1
    assert visited.errors == []
    visited.context.close()


def test_a_glass_brain_is_saved_as_png(visit: Visit) -> None:
    with visit.page.expect_download() as download:
        visit.page.locator("#figure-card-isocapsnet-1-brain .downloads button").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    assert download.value.suggested_filename == "card-isocapsnet-1-brain.png"


def test_a_table_is_saved_as_csv_with_numbers_that_can_be_computed_with(visit: Visit, toy_content: Any) -> None:
    rows = list(csv.reader(io.StringIO(visit.saved(SAVE_RESULTS))))
    head, by_method = rows[0], {row[0].removesuffix(" ★"): row for row in rows[1:]}
    start = head.index("ROC AUC")
    assert head[start : start + 3] == ["ROC AUC", "ROC AUC, low", "ROC AUC, high"]
    area = next(m for m in toy_content.methods if m.label == "linear").row.metrics["roc_auc"]
    assert [float(value) for value in by_method["linear"][start : start + 3]] == pytest.approx(list(area), abs=6e-4)
    assert {len(row) for row in rows} == {len(head)} and len(rows) == 5


def test_a_table_is_saved_as_latex_and_special_signs_are_escaped(visit: Visit) -> None:
    text = visit.saved("#data .table-block:has(#subjects) .downloads button:last-of-type")
    assert text.count("\\\\") == 4 and "\\begin{tabular}{lllr}" in text and "\\toprule" in text
    assert "AGE\\_AT\\_SCAN" in text and "$\\pm$" in text and "(50\\%)" in text


def test_formulas_in_names_do_not_reach_a_spreadsheet(visit: Visit) -> None:
    visit.page.evaluate("document.querySelector('#results tbody th').textContent = '=1+1, \"x\"'")
    rows = list(csv.reader(io.StringIO(visit.saved(SAVE_RESULTS))))
    assert rows[1][0] == '\'=1+1, "x"'


def test_narrow_tables_say_that_they_scroll_and_wide_ones_do_not(browser: Any, toy_page: Path) -> None:
    for width, is_shown in ((400, True), (1280, False)):
        visited = Visit(browser, toy_page, width)
        hint = visited.page.locator(".table-block:has(#results) .scroll-hint")
        assert hint.is_visible() is is_shown
        visited.context.close()


def test_a_glass_brain_has_no_white_box_on_a_dark_page_and_a_method_a_lighter_colour(
    browser: Any, toy_page: Path
) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        visited = Visit(browser, toy_page, 1280, scheme)
        image = visited.page.locator("#figure-card-isocapsnet-1-brain img")
        image.scroll_into_view_if_needed()
        picture = Image.open(io.BytesIO(image.screenshot())).convert("RGB")
        paper = visited.page.evaluate("getComputedStyle(document.body).backgroundColor")
        wanted = [int(part) for part in paper.removeprefix("rgb(").removesuffix(")").split(",")]
        assert picture.getpixel((2, 2)) == pytest.approx(wanted, abs=3)
        script = "getComputedStyle(document.documentElement).getPropertyValue('--method-1').trim()"
        colours[scheme] = sum(bytes.fromhex(visited.page.evaluate(script)[1:]))
        visited.context.close()
    assert colours["dark"] > colours["light"]


def test_variables_of_the_page_have_the_colours_of_figures_on_a_light_page(visit: Visit) -> None:
    for colour, variable in VARIABLES.items():
        script = f"getComputedStyle(document.documentElement).getPropertyValue('{variable}').trim()"
        assert visit.page.evaluate(script).lower() == colour.lower(), variable


def test_paper_is_white_without_controls_and_lists_only_the_misclassified(browser: Any, toy_page: Path) -> None:
    visited = Visit(browser, toy_page, 1280, "dark")
    visited.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    visited.page.emulate_media(media="print")
    assert visited.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for selector in ("nav", ".downloads", ".filter", ".controls", ".scroll-hint"):
        assert not visited.page.locator(selector).first.is_visible(), selector
    assert visited.page.locator("#results thead button").first.is_visible()
    rows = visited.page.locator("#subject-predictions tbody tr:visible")
    assert 0 < rows.count() < 48 and rows.locator("td.marked").count() >= rows.count()
    assert "printed table" in visited.page.locator("#predictions").inner_text()
    visited.context.close()


def test_page_without_scripts_shows_its_text_tables_and_figures_and_no_dead_controls(
    browser: Any, toy_page: Path
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, java_script_enabled=False)
    page = context.new_page()
    page.goto(toy_page.as_uri())
    assert page.locator(".verdict").is_visible() and page.locator("#results").is_visible()
    assert page.locator("#figure-all-roc svg").is_visible()
    for selector in (".filter", ".controls", ".downloads"):
        assert page.locator(selector).locator("visible=true").count() == 0
    page.get_by_text("Passport of the data").click()
    assert page.get_by_text("sha256:").first.is_visible()
    context.close()
