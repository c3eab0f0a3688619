"""Configuration of the documentation site (``make docs``)."""

import os
import re

# Small examples: one thread per process is fastest, and figures are drawn without a display.
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MPLBACKEND="agg")

from docutils.nodes import Element
from matplotlib.figure import Figure
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx_gallery.scrapers import figure_rst

import isocapsnet

project = "isocapsnet"
author = "the isocapsnet developers"
project_copyright = author
version = release = isocapsnet.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.py", "gallery/*.ipynb", "gallery/*.zip", "gallery/*.json"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
nitpicky = True
suppress_warnings = ["config.cache"]  # the configuration of the gallery has a function

# Markdown: links to headings (#...) of other pages, equations in dollars.
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# Reference: the names in ``__all__`` of each public module, imported ones included.
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autosummary_context = {"front_door": isocapsnet.__all__}
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


def _save_last_figure(block: tuple, variables: dict, settings: dict) -> str:
    """Show the figure that ends a cell, such as ``results.plot.roc()``, as a notebook does."""
    figure = variables["example_globals"].get("___")
    if not isinstance(figure, Figure) or figure is variables.get("saved_figure"):
        return ""
    path = next(variables["image_path_iterator"])
    figure.savefig(path, dpi=150)
    variables["saved_figure"] = figure
    return figure_rst([path], settings["src_dir"], "The figure that the code above draws.")


sphinx_gallery_conf = {
    "image_scrapers": ("matplotlib", _save_last_figure),
    "ignore_repr_types": r"matplotlib\.figure",
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"/_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 0,
    "write_computation_times": False,  # those pages load scripts and styles from other servers
    "capture_repr": ("_repr_html_", "__repr__"),
    "matplotlib_animations": False,
    "doc_module": ("isocapsnet",),
    "backreferences_dir": "reference/backreferences",
    "inspect_global_variables": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"isocapsnet {release}"
html_show_sourcelink = False
html_sidebars = {"start": []}  # this section is one page, so it has no navigation to show
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

_PUBLIC_MODULES = [
    "isocapsnet",
    *(f"isocapsnet.{name}" for name in ("models", "datasets", "evaluation", "explanation", "nn", "functional")),
]
# Pages of the repository that the site includes, by their place in the site.
_ROOT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}


def _link_root_pages(app: Sphinx, *arguments: object) -> None:
    """Lead links to CHANGELOG.md and others to the pages of the site that include them."""
    content = arguments[-1]
    assert isinstance(content, list)
    for name, page in _ROOT_PAGES.items():
        content[0] = content[0].replace(f"](../{name})", f"](develop/{page})").replace(f"]({name})", f"]({page})")


def _use_public_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element) -> Element | None:
    """Resolve a reference by the module that defines a name to the public name, under which it is documented."""
    if node.get("refdomain") != "py":
        return None
    domain = env.domains.python_domain
    name = node["reftarget"].rpartition(".")[2]
    public = [target for module in _PUBLIC_MODULES if (target := f"{module}.{name}") in domain.objects]
    if not public:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", public[0], node, content)


def _mend_links_of_source(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    """Lead links from source code to anchors that exist: viewcode puts all names of a file into one public module."""
    if page.startswith("_modules/"):
        link = r'(generated/([\w.]+)\.(\w+)\.html)#[\w.]+?\.\3((?:\.\w+)*)"'
        context["body"] = re.sub(link, r'\1#\2.\3\4"', context["body"])


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", _link_root_pages)
    app.connect("include-read", _link_root_pages)
    app.connect("missing-reference", _use_public_name)
    app.connect("html-page-context", _mend_links_of_source)
