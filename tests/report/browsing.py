"""A page in the machine's Chromium."""

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

# Chromium looks for updates and accounts by itself, which must not be mistaken for requests of the page.
_ARGUMENTS = [
    "--no-sandbox", "--no-first-run", "--enable-unsafe-swiftshader", "--disable-quic", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def start_browser() -> Iterator[Any]:
    """The machine's Chromium; tests skip where there is none or it does not start."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=path, args=_ARGUMENTS)
        except playwright.Error as error:
            pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")
        yield started
        started.close()


class Visit:
    """An open page and what it complained about and asked for."""

    def __init__(self, browser: Any, path: Path, width: int, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_load_state("load")

    def pixels(self, selector: str) -> str:
        """What a canvas shows, when two more frames have been drawn."""
        return self.page.evaluate(
            """async (selector) => {
                for (let i = 0; i < 2; i += 1) await new Promise(requestAnimationFrame);
                return document.querySelector(selector).toDataURL();
            }""",
            selector,
        )

    def is_blank(self, selector: str) -> bool:
        """Whether every pixel of a canvas is transparent."""
        return self.page.evaluate(
            """async (selector) => {
                for (let i = 0; i < 2; i += 1) await new Promise(requestAnimationFrame);
                const source = document.querySelector(selector);
                const copy = document.createElement("canvas");
                [copy.width, copy.height] = [source.width, source.height];
                const context = copy.getContext("2d");
                context.drawImage(source, 0, 0);
                return context.getImageData(0, 0, copy.width, copy.height).data.every((byte) => byte === 0);
            }""",
            selector,
        )

    def colours(self, selector: str, script: str) -> list[tuple[int, int, int]]:
        """What a screenshot of a canvas shows at the places ``[[x, y], ...]`` that ``script`` computes from it."""
        places = self.page.locator(selector).evaluate(script)
        self.page.locator(selector).scroll_into_view_if_needed()
        picture = Image.open(io.BytesIO(self.page.locator(selector).screenshot())).convert("RGB")
        return [picture.getpixel((round(x), round(y))) for x, y in places]

    def saved(self, button: str) -> str:
        """The text of the file that a button saves."""
        with self.page.expect_download() as download:
            self.page.locator(button).focus()
            self.page.keyboard.press("Enter")
        return Path(download.value.path()).read_text()

    def column(self, table: str, number: int) -> list[str]:
        return self.page.locator(f"#{table} tbody tr:visible > :nth-child({number})").all_inner_texts()
