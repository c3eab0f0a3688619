"""The sections of a page: methods, evidence cards, how to reproduce."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from isocapsnet.report import gallery
from isocapsnet.report.content import Attribution, Content, Method
from isocapsnet.report.embedding import embed
from isocapsnet.report.evidence import Scene, attribution_scene, card_scene
from isocapsnet.report.prose import METRIC_NAMES, describe_method, duration, effect, interval, number, p_value
from isocapsnet.report.tables import Table, edges_table, regions_table, windows_table

_TONES = {"stable": "stable", "not stable": "unstable"}
# Attributions that correlate more than this with those of an untrained network explain little that was learned.
_LIKE_UNTRAINED = 0.5


@dataclass(frozen=True)
class Drawn:
    """An illustration as the template shows it."""

    name: str
    image: Markup
    caption: str


class Album:
    """Turns illustrations into markup, and shows each to ``on_figure``; figures are large, so none is kept."""

    def __init__(self, on_figure: Callable[[gallery.Illustration], None]) -> None:
        self._on_figure = on_figure

    def add(self, illustration: gallery.Illustration) -> Drawn:
        """The illustration for the page."""
        self._on_figure(illustration)
        image = embed(
            illustration.figure, name=illustration.name, alt=illustration.alt, as_picture=illustration.is_picture
        )
        return Drawn(illustration.name, image, illustration.caption)


@dataclass(frozen=True)
class MethodPart:
    """A method's section."""

    label: str
    slug: str
    verdict: str
    facts: Sequence[tuple[str, str]]
    figures: Sequence[Drawn]
    templates: Sequence[Drawn]


@dataclass(frozen=True)
class CardPart:
    """An evidence card: of a template, or of the edges that a network uses."""

    id: str
    scene: Scene
    verdict: str
    tone: str
    template: Drawn | None
    brain: Drawn | None
    facts: Sequence[tuple[str, str]]
    table: Table
    details: Table | None = None


def list_methods(content: Content, album: Album) -> list[MethodPart]:
    """The sections of all methods."""
    parts = []
    for method in content.methods:
        slug = gallery.as_slug(method.label)
        drawn = [album.add(illustration) for illustration in gallery.of_method(method, content.classes)]
        first = next((fit.templates for fit in method.fits if fit.templates is not None), None)
        templates = [] if first is None or method.cards else _draw_templates(first, slug, album)
        parts.append(MethodPart(method.label, slug, method.row["verdict"], _method_facts(method), drawn, templates))
    return parts


def _draw_templates(templates: Any, slug: str, album: Album) -> list[Drawn]:
    return [
        album.add(gallery.template(matrix, name=f"{slug}-template-{i}", title=f"Template {i}"))
        for i, matrix in enumerate(templates, start=1)
    ]


def _method_facts(method: Method) -> list[tuple[str, str]]:
    row = method.row
    facts = [("parameters", describe_method(method))]
    facts += [(METRIC_NAMES[name], interval(values)) for name, values in row["metrics"].items()]
    if method.fits:
        times = [
            f"{name} {duration(float(np.mean([fit.seconds.get(name, 0.0) for fit in method.fits])))}"
            for name in ("tune", "fit", "predict")
        ]
        facts.append(("mean time per fold", ", ".join(times)))
        memory = [fit.peak_memory for fit in method.fits if fit.peak_memory]
        if memory:
            facts.append(("peak memory", f"{max(memory) / 1e6:.0f} MB"))
    facts.append(("jobs", f"{row['jobs'] - row['failed']} of {row['jobs']} finished"))
    return facts


def list_cards(content: Content, album: Album) -> list[CardPart]:
    """The evidence cards of all methods: their templates, then their edges."""
    cards = []
    for method in content.methods:
        cards += [_template_card(content, album, method.label, card) for card in method.cards]
    for method in content.methods:
        if method.attribution is not None:
            cards.append(_edge_card(content, album, method, method.attribution))
    return cards


def _template_card(content: Content, album: Album, label: str, card: Mapping[str, Any]) -> CardPart:
    title = f"{label}, template {card['template'] + 1}"
    name = f"card-{gallery.as_slug(label)}-{card['template'] + 1}"
    scene = card_scene(card, content.n_nodes, title)
    brain = gallery.on_brain(content, scene, name=f"{name}-brain")
    return CardPart(
        id=name,
        scene=scene,
        verdict=card["verdict"],
        tone=_TONES.get(card["verdict"], ""),
        template=album.add(gallery.template(card["matrix"], name=f"{name}-template", title=title)),
        brain=None if brain is None else album.add(brain),
        facts=_card_facts(card),
        table=regions_table(content, card, name),
        details=windows_table(content, card, name),
    )


def _edge_card(content: Content, album: Album, method: Method, attribution: Attribution) -> CardPart:
    name = f"card-{gallery.as_slug(method.label)}-edges"
    # Scores jump where another permutation wins, and no gradient sees a jump.
    remark = " Their order was tested; in a network that matches templates their signs are not reliable."
    scene = attribution_scene(attribution, f"{method.label}, edges", remark=remark if method.cards else "")
    brain = gallery.on_brain(content, scene, name=f"{name}-brain")
    learned = abs(attribution.randomization) < _LIKE_UNTRAINED
    return CardPart(
        id=name,
        scene=scene,
        verdict="depends on what was learned" if learned else "an untrained network gives it too",
        tone="" if learned else "unstable",
        template=None,
        brain=None if brain is None else album.add(brain),
        facts=[
            ("mean over", f"{attribution.n_fits} fits, each on its test graphs"),
            ("rank correlation with an untrained network", number(attribution.randomization, 2)),
            ("regions where most of them meet", ", ".join(content.node_name(node) for node in scene.top) or "none"),
        ],
        table=edges_table(content, scene, name),
    )


def _card_facts(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("class effect", f"d = {effect(card['effect'])}"),
        ("separates the classes", f"in {card['n_separating']} of {card['n_fits']} fits ({p_value(card['p_value'])})"),
    ]
    if card["n_left_out"]:
        facts.append(("not comparable", f"{card['n_left_out']} fits with templates of another size or number"))
    for what, key in (("same regions in other fits", "places"), ("same shape in other fits", "shape")):
        if agreement := card[key]:
            facts.append(
                (
                    what,
                    f"r = {number(agreement['value'], 2)}; by chance up to {number(agreement['null'], 2)} "
                    f"({p_value(agreement['p_value'])})",
                )
            )
    return facts


def reproduction_facts(content: Content) -> list[tuple[str, str]]:
    """Digests, seeds and versions."""
    results = content.results
    facts = [("data digest", results["passport"].get("digest") or "not on record")]
    facts += [(name, version) for name, version in (results.get("versions") or {}).items()]
    facts.append(("seeds", "derived from the data digest, the method's name, the repeat and the fold; none was chosen"))
    keys = [fold["key"] for method in content.methods for fold in method.row["folds"]]
    if keys:
        facts.append(("records", f"{len(keys)} test folds; the first record is {keys[0]}"))
    return facts
