"""Take the pictures of a report that the documentation shows: ``make demo``, then ``python benchmarks/pictures.py``."""

import argparse
import os
import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MARGIN = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, nargs="?", default=Path("isocapsnet-results/report.html"))
    report = parser.parse_args().report.resolve()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--enable-unsafe-swiftshader"])
        page = browser.new_page(viewport={"width": 990, "height": 1200})
        page.goto(report.as_uri())
        take(page, "report-comparison", "#answer", "#comparison .scroll")
        card = page.locator("article.card", has=page.locator(".badge.stable")).last
        card.locator("button[data-scene]").click()
        number = card.get_attribute("id")
        page.add_style_tag(content=f"article.card:not(#{number}) {{ display: none }}")
        take(page, "report-evidence", "#connectome-viewer", f"#{number}")
        browser.close()


def take(page: Page, name: str, first: str, last: str) -> None:
    """Save the part of the page from the top of ``first`` to the bottom of ``last``."""
    page.evaluate("scrollTo(0, 0)")
    top, bottom = (page.locator(selector).first.bounding_box() for selector in (first, last))
    assert top is not None and bottom is not None
    y = top["y"] - MARGIN
    clip = {"x": 0, "y": y, "width": 990, "height": bottom["y"] + bottom["height"] + MARGIN - y}
    page.screenshot(path=IMAGES / f"{name}.png", full_page=True, clip=clip)


if __name__ == "__main__":
    main()
