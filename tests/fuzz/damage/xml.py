"""Damage to GraphML: markup, entities, encodings and sizes that an XML parser or a reader of graphs may fall over."""

import re
from collections.abc import Callable
from random import Random

from tests.fuzz.damage.text import CELLS, damage_text

_DECLARATIONS = (
    '<!DOCTYPE g [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "' + "&a;" * 10 + '"><!ENTITY c "' + "&b;" * 10 + '">]>',
    '<!DOCTYPE g [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
    '<!DOCTYPE g [<!ENTITY % a SYSTEM "http://127.0.0.1:9/x.dtd"> %a;]>',
    '<!DOCTYPE g SYSTEM "missing.dtd">',
    "<!DOCTYPE g [<!ELEMENT g ANY>]>",
    "<?xml-stylesheet href='x'?>",
    "<!-- " + "-" * 3000 + " -->",
    "<!DOCTYPE",
)
_ENCODINGS = (
    "utf-16", "utf-7", "utf-32", "ucs-4", "latin-1", "ascii", "cp1252", "koi8-r", "rot13", "idna", "punycode", "zlib",
    "hex", "base64", "unicode_escape", "undefined", "mbcs", "x" * 2000, "", "\x1b", "EBCDIC-CP-US", "utf_8_sig",
    "big5", "shift_jis",
)  # fmt: skip
_KEYS = (
    '<key id="d1" attr.name="weight"/>', '<key id="d1" for="graph" attr.name="weight"/>', '<key for="edge"/>',
    "<key/>", '<key id="d1" for="all" attr.name="weight"><default>nan</default></key>',
    '<key id="d2" for="edge" attr.name="length"/>', '<key id="d1" for="edge" attr.name="weight" attr.type="string"/>',
    '<key id="" for="edge" attr.name=""/>',
)  # fmt: skip

_PARTS = (
    '<node id="x" a="' + "x" * 200_000 + '"/>', "<n " + " ".join(f'a{i}=""' for i in range(3000)) + "/>",
    '<edge source="0" target="1"/>' * 2000, '<edge source="0" target="0"/>', '<edge source="0"/>', '<node id="1"/>',
    "<node/>", '<graph edgedefault="directed"><node id="z"/></graph>', "<hyperedge/>", "<port/>",
)  # fmt: skip


def _tag(text: str, rng: Random) -> re.Match[str] | None:
    tags = list(re.finditer(r"<[^>]*>", text))
    return rng.choice(tags) if tags else None


def _delete_tag(text: str, rng: Random) -> str:
    tag = _tag(text, rng)
    return text if tag is None else text[: tag.start()] + text[tag.end() :]


def _duplicate_tag(text: str, rng: Random) -> str:
    tag = _tag(text, rng)
    return text if tag is None else text[: tag.end()] + tag[0] * rng.choice((1, 1, 3)) + text[tag.end() :]


def _move_tag(text: str, rng: Random) -> str:
    tag, target = _tag(text, rng), _tag(text, rng)
    return text if tag is None or target is None else text[: target.end()] + tag[0] + text[target.end() :]


def _change_attribute(text: str, rng: Random) -> str:
    """Another value of an attribute, another name, or none."""
    found = list(re.finditer(r'([\w.:]+)="([^"]*)"', text))
    if not found:
        return text
    one = rng.choice(found)
    value = rng.choice((*CELLS, "directed", "undirected", "edge", "all", "node", "0", "d1", one[2] + " ")).replace(
        '"', ""
    )
    name = rng.choice((one[1], one[1], one[1], "id", "xmlns", "for", f"a:{one[1]}", ""))
    new = rng.choice((f'{name}="{value}"', f'{name}="{value}"', f"{name}={value}", "", f"{one[0]} {one[0]}"))
    return text[: one.start()] + new + text[one.end() :]


def _change_value(text: str, rng: Random) -> str:
    found = list(re.finditer(r">([^<]+)<", text))
    if not found:
        return text
    one = rng.choice(found)
    new = rng.choice(
        (*CELLS, "&a;", "&c;", "&#0;", "&#x110000;", "&amp;", "<b>1</b>", "<![CDATA[1]]>", "]]>", "<!-- -->", "&")
    )
    return text[: one.start(1)] + new + text[one.end(1) :]


def _change_key(text: str, rng: Random) -> str:
    keys = list(re.finditer(r"<key[^>]*>", text))
    if not keys:
        return text
    one = rng.choice(keys)
    return text[: one.start()] + rng.choice(_KEYS) + text[one.end() :]


def _declare(text: str, rng: Random) -> str:
    text = re.sub(r"^<\?xml[^>]*>", "", text)
    if rng.random() < 0.6:
        text = rng.choice(_DECLARATIONS) + text
        if rng.random() < 0.5:
            text = re.sub(r">[^<]+<", lambda _: ">&a;&c;<", text, count=1)
    return (
        rng.choice(
            ("", "<?xml version='1.0'?>", "<?xml version='1.1'?>", "<?xml version='9'?>", "\n<?xml version='1.0'?>")
        )
        + text
    )


def _nest(text: str, rng: Random) -> str:
    name, depth = rng.choice(("graph", "node", "edge", "data", "a", "key")), rng.choice((5, 500, 50_000))
    place = text.find(rng.choice(("<graph", "<node", "<edge", "<data", "</graph", "<key")))
    closing = f"</{name}>" * depth if rng.random() < 0.8 else ""
    return text[:place] + f"<{name}>" * depth + closing + text[place:]


def _grow(text: str, rng: Random) -> str:
    """Many nodes, many edges, one long attribute."""
    if rng.random() < 0.15:
        count = rng.choice((2000, 25_000, 60_000))
        new = "".join(f'<node id="n{i}"/>' for i in range(count))
    else:
        new = rng.choice(_PARTS)
    place = text.find(rng.choice(("<node", "<edge", "</graph>")))
    return text[:place] + new + text[place:]


def _other_graph(text: str, rng: Random) -> str:
    """Names and order of nodes, kind of edges, namespaces."""
    return rng.choice(
        (
            lambda: text.replace(
                'edgedefault="undirected"', rng.choice(('edgedefault="directed"', "", 'edgedefault="x"'))
            ),
            lambda: text.replace("graphml.graphdrawing.org", "example.org"),
            lambda: re.sub(r' xmlns="[^"]*"', "", text),
            lambda: re.sub(r'id="(\d)"', r'id="0\1"', text),
            lambda: re.sub(r'source="\d"', 'source="9"', text),
            lambda: text.replace("<graph ", "<graf ").replace("</graph>", "</graf>"),
            lambda: text.replace('key="d1"', 'key="d9"'),
            lambda: re.sub(r"<data[^>]*>[^<]*</data>", "", text),
            lambda: re.sub(r"<edge.*?</edge>", "", text),
            lambda: re.sub(r"<node[^>]*>", "", text),
        )
    )()


_MUTATORS: tuple[Callable[[str, Random], str], ...] = (
    _delete_tag, _duplicate_tag, _move_tag, _change_attribute, _change_attribute, _change_attribute, _change_value,
    _change_value, _change_value, _change_key, _declare, _nest, _grow, _other_graph, _other_graph,
)  # fmt: skip


def damage_xml(content: bytes, rng: Random) -> bytes:
    """GraphML after one to four changes, now and then in another encoding than it says."""
    if rng.random() < 0.1:
        return damage_text(content, rng)
    text = content.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = rng.choice(_MUTATORS)(text, rng)
    if rng.random() < 0.15:
        declared = f"<?xml version='1.0' encoding='{rng.choice(_ENCODINGS)}'?>"
        return (declared + text).encode(rng.choice(("utf-8", "utf-16", "latin-1", "utf-8-sig", "utf-32")), "replace")
    return text.encode("utf-8", "replace")
