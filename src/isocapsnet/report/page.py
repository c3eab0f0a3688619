"""One self-contained HTML page: it needs no network, opens from disk, prints, and has a light and a dark style."""

from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from isocapsnet.report import answer, evidence_tables, prose, subject_tables, tables
from isocapsnet.report.content import Content
from isocapsnet.report.evidence import list_scenes
from isocapsnet.report.figures import FIGURES
from isocapsnet.report.figures.drawing import VARIABLES, Drawing
from isocapsnet.report.figures.style import NEGATIVE, POSITIVE, class_colours
from isocapsnet.report.networks import networks_table
from isocapsnet.report.rates import describe_calibration
from isocapsnet.report.sites import site_scores
from isocapsnet.report.viewers import connectome_data, reconstruction_data, wants_logarithm

_SCRIPTS = ("page.js", "tables.js", "downloads.js", "matrices.js", "connectome.js")


def render(content: Content, on_figure: Callable[[Drawing], object] = lambda drawing: None) -> str:
    """The page as text; ``on_figure`` is called with each of its figures, for example to save it."""

    def figures(section: str, *subject: Any) -> Iterator[Drawing]:
        """The figures of a section; figures of methods and of evidence cards are given which one as ``subject``."""
        for kind in FIGURES.values():
            if kind.section == section:
                for drawing in kind.draw(content, *subject):
                    on_figure(drawing)
                    yield drawing

    scenes = list_scenes(content)
    subjects, matrices = reconstruction_data(content)
    has_methods = bool(content.methods)
    predictions = subject_tables.predictions_table(content)
    sections = [
        ("answer", "Answer", True),
        ("data", "Data and subjects", True),
        ("comparison", "Comparison", has_methods),
        ("sites", "Sites", has_methods and bool(site_scores(content))),
        ("node-order", "Order of nodes", any(method.row.audit for method in content.methods)),
        ("learning-curve", "Sample size", any(method.row.curve for method in content.methods)),
        ("sweep", "Parameter sweep", has_methods and content.sweep is not None),
        ("tuning", "Tuning", has_methods),
        ("methods", "Each method", has_methods),
        ("predictions", "Each subject", has_methods and predictions is not None),
        ("evidence", "Evidence", bool(scenes)),
        ("reconstruction", "Reconstruction", bool(subjects)),
        ("problems", "Failures and warnings", True),
        ("reproduce", "How to reproduce", True),
        ("cite", "Text and references", True),
    ]
    folder = files("isocapsnet.report")
    assets = {name: (folder / "assets" / name).read_text() for name in ("report.css", *_SCRIPTS)}
    # Autoescape: text from data is escaped.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string((folder / "page.html.jinja").read_text()).render(
        content=content,
        answer=answer,
        prose=prose,
        tables=tables,
        subject_tables=subject_tables,
        evidence_tables=evidence_tables,
        predictions=predictions,
        describe_calibration=describe_calibration,
        failed_reconstructions=prose.failed_reconstructions(content),
        light_colours={variable: colour for colour, variable in VARIABLES.items()},
        networks_table=networks_table,
        figures=figures,
        sections={name: title for name, title, is_present in sections if is_present},
        scenes=scenes,
        connectome_data=connectome_data(content, scenes),
        class_colours=list(zip(content.classes, class_colours(len(content.classes)), strict=True)),
        positive=POSITIVE,
        negative=NEGATIVE,
        reconstruction_subjects=subjects,
        reconstruction_data=matrices,
        logarithmic=wants_logarithm(content),
        bibtex=prose.bibtex((method.row.name for method in content.methods), content.table.test),
        node_names=[content.node_name(node) for node in range(content.n_nodes)],
        styles=Markup(assets["report.css"]),
        scripts=Markup("\n".join(assets[name] for name in _SCRIPTS)),
    )
