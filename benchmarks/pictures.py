"""Take the pictures of a report that the documentation shows: ``make demo``, then ``python benchmarks/pictures.py``."""

import argparse
import io
import os
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MARGIN = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, nargs="?", default=Path("isocapsnet-results/report.html"))
    report = parser.parse_args().report.resolve()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--enable-unsafe-swiftshader"])
        save(open_page(browser, report, 1180, 900).screenshot(), "report-answer")
        save(open_page(browser, report, 400, 900).screenshot(), "report-narrow")
        page = open_page(browser, report, 990, 1200)
        take(page, "report-comparison", "#comparison", ".table-block:has(#rates)")
        take(page, "report-subjects", "#predictions", "#predictions .table-block")
        show_stable_card(page, "report-evidence")
        show_stable_card(open_page(browser, report, 990, 1200, "dark"), "report-dark")
        browser.close()


def open_page(browser: Browser, report: Path, width: int, height: int, scheme: str = "light") -> Page:
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(report.as_uri())
    page.wait_for_load_state("load")
    return page


def show_stable_card(page: Page, name: str) -> None:
    """The viewer above the last stable card, without the other cards."""
    card = page.locator("details.card", has=page.locator(".badge.stable")).last
    identifier = card.get_attribute("id")
    card.evaluate("(element) => { element.open = true; }")
    card.locator("button[data-scene]").click()
    page.add_style_tag(content=f"details.card:not(#{identifier}) {{ display: none }}")
    take(page, name, "#connectome-viewer", f"#{identifier}")


def take(page: Page, name: str, first: str, last: str) -> None:
    """Save the part of the page from the top of ``first`` to the bottom of ``last``."""
    page.evaluate("scrollTo(0, 0)")
    top, bottom = (page.locator(selector).first.bounding_box() for selector in (first, last))
    assert top is not None and bottom is not None
    y = top["y"] - MARGIN
    clip = {"x": 0, "y": y, "width": 990, "height": bottom["y"] + bottom["height"] + MARGIN - y}
    # The shades of a cortex need all colours.
    save(page.screenshot(full_page=True, clip=clip), name, 0 if "connectome" in first else 256)  # type: ignore[arg-type]


def save(picture: bytes, name: str, n_colours: int = 256) -> None:
    """Write a screenshot in few colours, which is a third of the size; ``n_colours`` 0 keeps all."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    if n_colours:
        image = image.quantize(n_colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    image.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
