"""Check the links of the built site without a network: every local page, file and anchor must exist.

    python docs/check_links.py docs/_build/html

Pages may link to other servers, but scripts, styles and images must be part of the site.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes that are anchors or addresses."""
        own = {name: value for name, value in attrs if value is not None}
        self.anchors |= {own[name] for name in ("id", "name") if name in own and (name == "id" or tag == "a")}
        loads = tag != "a" and (tag != "link" or own.get("rel") in ("stylesheet", "icon", "preload", "modulepreload"))
        addresses = {own[name] for name in ("href", "src") if name in own}
        (self.loaded if loads else self.links).update(addresses)


def check(site: Path) -> list[str]:
    """What is wrong, one line each."""
    # In the folder of styles and scripts there are templates.
    paths = (path for path in site.rglob("*.html") if path.relative_to(site).parts[0] != "_static")
    pages = {path: Page(path) for path in sorted(paths)}
    if not pages:
        return [f"{site} has no pages"]
    problems = []
    for path, page in pages.items():
        for address in sorted(page.links | page.loaded):
            where = f"{path.relative_to(site)}: {address}"
            if urlsplit(address).scheme or address.startswith("//"):
                if address in page.loaded and not address.startswith("data:"):
                    problems.append(f"{where} is loaded from another server")
                continue
            name, anchor = urldefrag(address)
            target = (path.parent / unquote(name.partition("?")[0])).resolve() if name else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_relative_to(site) or not target.is_file():
                problems.append(f"{where} does not exist")
            elif target in pages and unquote(anchor) not in pages[target].anchors:
                problems.append(f"{where} has no such anchor")
    return problems


if __name__ == "__main__":
    found = check(Path(sys.argv[1]).resolve())
    print("\n".join(found) or "All links of the site lead somewhere.")
    sys.exit(bool(found))
