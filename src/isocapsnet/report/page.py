"""One self-contained HTML page: no network, opens from disk, prints, light and dark."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from isocapsnet.report import gallery, prose, sections, tables
from isocapsnet.report.citations import bibtex
from isocapsnet.report.content import Content
from isocapsnet.report.figures.style import NEGATIVE, POSITIVE, class_colours
from isocapsnet.report.viewers import connectome_data, reconstruction_data, wants_logarithm

_SCRIPTS = ("page.js", "tables.js", "matrices.js", "connectome.js")


def render(content: Content, on_figure: Callable[[gallery.Illustration], None] = lambda illustration: None) -> str:
    """The page; ``on_figure`` is shown each of its figures, to save it as a file, say."""
    album = sections.Album(on_figure)
    methods = sections.list_methods(content, album)
    cards = sections.list_cards(content, album)
    sets, packed = reconstruction_data(content)
    audit, sweep = gallery.audit(content), gallery.sweep(content)
    context: dict[str, Any] = {
        "content": content,
        "versions": content.results.get("versions") or {},
        "question": prose.question(content),
        "answer": prose.answer(content),
        "comparison_figures": [album.add(drawn) for drawn in _comparison_figures(content)],
        "results_table": tables.results_table(content),
        "pairs_table": tables.pairs_table(content),
        "unlabelled": prose.listing([m.label for m in content.methods if m.row["use_unlabeled"]]),
        "audit_figure": audit and album.add(audit),
        "audit_table": tables.audit_table(content),
        "sweep_figure": sweep and album.add(sweep),
        "protocol_text": prose.protocol_text(content),
        "tuning_table": tables.tuning_table(content),
        "methods": methods,
        "cards": cards,
        "connectome_data": connectome_data(content, [card.scene for card in cards]),
        "class_colours": list(zip(content.classes, class_colours(len(content.classes)), strict=True)),
        "positive": POSITIVE,
        "negative": NEGATIVE,
        "reconstruction_sets": sets,
        "reconstruction_data": packed,
        "reconstruction_figures": [
            album.add(gallery.reconstruction(method.reconstructions, content.classes, content.coordinates))
            for method in content.methods
            if method.reconstructions is not None
        ],
        "logarithmic": wants_logarithm(content),
        "failures_table": tables.failures_table(content),
        "warnings_table": tables.warnings_table(content),
        "command": content.results.get("command"),
        "reproduction": sections.reproduction_facts(content),
        "methods_text": prose.methods_text(content),
        "bibtex": bibtex(method.name for method in content.methods),
        "node_names": [content.node_name(node) for node in range(content.n_nodes)],
    }
    context["sections"] = _sections(context)
    return _fill(context)


def _fill(context: dict[str, Any]) -> str:
    """The template with its assets; whatever comes from data is escaped."""
    folder = files("isocapsnet.report")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string((folder / "page.html.jinja").read_text())
    assets = {name: (folder / "assets" / name).read_text() for name in ("report.css", *_SCRIPTS)}
    return template.render(
        context,
        styles=Markup(assets["report.css"]),
        scripts=Markup("\n".join(assets[name] for name in _SCRIPTS)),
    )


def _comparison_figures(content: Content) -> list[gallery.Illustration]:
    if not content.methods:
        return []
    return [gallery.comparison(content), gallery.comparison(content, "accuracy"), gallery.folds(content)]


def _sections(context: dict[str, Any]) -> list[tuple[str, str]]:
    """Id and title of the sections that the page has."""
    has_methods = bool(context["methods"])
    return [
        (name, title)
        for name, title, present in (
            ("question", "Question and data", True),
            ("answer", "Answer", True),
            ("comparison", "Comparison", has_methods),
            ("node-order", "Order of nodes", context["audit_figure"]),
            ("sweep", "One parameter varied", context["sweep_figure"]),
            ("tuning", "What was tuned", has_methods),
            ("methods", "Each method", has_methods),
            ("evidence", "Evidence", context["cards"]),
            ("reconstruction", "Reconstruction", context["reconstruction_sets"]),
            ("problems", "Failures and warnings", True),
            ("reproduce", "How to reproduce", True),
            ("cite", "Text and references", True),
        )
        if present
    ]
