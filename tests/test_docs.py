"""The documentation is finished, its links lead somewhere, and the examples of extensions run."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from isocapsnet import InputError, load_graphs
from isocapsnet.datasets import readers

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PATH = re.compile(
    r"(?<![\w/.:~-])((?:[\w.-]+/)+[\w.-]*\.(?:py|md|rst|jsonl?|toml|ipynb|csv|png|svg|yml|txt|npz|html))\b"
)
#: Where the paths of a page may begin, and folders that the commands of the pages write.
STARTS = (ROOT, ROOT / "src", ROOT / "src/isocapsnet", ROOT / "src/isocapsnet/datasets")
WRITTEN = ("results", "sweep", "isocapsnet-results", "my_package-1.0.dist-info", "sub-01", "siteA", "HC", "PT")
MACHINE = re.compile(r"(?<![\w.])/(?:home|root|tmp|work|mnt|Users)/|\.\./shared\b")
# A line that is one word in capitals (BENCHTABLE), or a note to oneself.
PLACEHOLDER = re.compile(r"^\s*[A-Z][A-Z_]{3,}\s*$|\b(?:TODO|FIXME|TBD|XXX)\b")
#: A time, an amount of memory, or a score.
MEASURED = re.compile(
    r"(?<![\w.])\d[\d,.]*\s(?:m?s|min|minutes|(?:CPU )?seconds|CPU s|hours|core-\w+|[kMG]i?B)\b|(?<![\w.])0?\.\d{2,}\b"
)
COMMAND = re.compile(
    r"\b(?:python (?:benchmarks/|-m |-c )|make (?:bench|demo|docs|results|test)"
    r"|isocapsnet (?:benchmark|data|doctor|explain|fit|predict|report|sweep|transform)) ?"
)
CODE = re.compile(r"```.*?```|`[^`]+`", re.DOTALL)
#: Numbers that nobody measured: settings of the papers, sizes of arrays, limits of the library.
SETTINGS = {
    "architecture.md": {"2 MB"},
    "methods.md": {"0.0005", "0.01", "0.33", "1.7 MB"},
    "training.md": {"256 MB"},
    "verdicts.md": {"0.03"},  # the margin of equivalence
    "SECURITY.md": {"5 s", "1 s"},
}


def test_there_are_pages():
    assert {"README.md", "explain.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_placeholder(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [(number, line) for number, line in enumerate(lines, 1) if PLACEHOLDER.search(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if not link.startswith("http")]
    assert [link for link in links if not source_of(page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_is_one_that_a_clone_has(page):
    text = re.sub(r"https?://\S+|\]\([^)]*\)", "", page.read_text(encoding="utf-8"))
    assert MACHINE.findall(text) == []
    paths = [path for path in PATH.findall(text) if path.partition("/")[0] not in WRITTEN]
    assert [path for path in paths if not any((start / path).exists() for start in (*STARTS, page.parent))] == []


def has_command(text):
    return any(COMMAND.search(code) for code in CODE.findall(text))


def sections_of(text):
    """The texts of the sections above each section, and its own."""
    blocks = re.split(r"(```.*?```)", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in ([block] if block.startswith("```") else block.splitlines())]
    above, sections = {}, []
    for line in lines:
        if heading := re.match(r"(#+) ", line):
            above = {level: own for level, own in above.items() if level < len(heading[1])}
            above[len(heading[1])] = [line]
            sections.append(list(above.values()))
        elif above:
            above[max(above)].append(line)
    return [["\n".join(own) for own in section] for section in sections]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_measured_number_has_a_command(page):
    """In its section or one above, or its paragraph leads to a page that has one."""
    if page.name == "CHANGELOG.md":
        return
    missing = {}
    for section in sections_of(page.read_text(encoding="utf-8")):
        if any(map(has_command, section)):
            continue
        for paragraph in re.sub(r"```.*?```", "", section[-1], flags=re.DOTALL).split("\n\n"):
            links = [page.parent / link for link in re.findall(r"\]\(([^)#]+\.md)", paragraph) if ":" not in link]
            if any(has_command(source_of(link).read_text(encoding="utf-8")) for link in links):
                continue
            if numbers := set(MEASURED.findall(paragraph)) - SETTINGS.get(page.name, set()):
                missing[section[-1].partition("\n")[0]] = numbers
    assert missing == {}


def test_readme_says_what_the_table_of_hiv_dti_says():
    """The table is written by `make results`; the sentence beside it in README is not."""
    section = (ROOT / "docs/results.md").read_text(encoding="utf-8").partition("<!-- begin hiv_dti -->")[2]
    section = section.partition("<!-- end hiv_dti -->")[0]
    areas = re.findall(
        r"^\| `([^`]+)` .*\| (0\.\d+) \[(0\.\d+), (0\.\d+)\] .*\| ([a-z ]+) \| -? *\|$", section, re.MULTILINE
    )
    assert {verdict for *_, verdict in areas} == {"not distinguishable from chance"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sentence = " ".join(re.search(r"- \*\*HIV-DTI\*\*.*?\n- ", readme, re.DOTALL)[0].split())
    best, area, low, high, _ = max(areas, key=lambda row: float(row[1]))
    power = re.search(r"80 % power begins at a ROC AUC of (0\.\d+)", section)[1]
    facts = [f"{len(areas)} rows", f"{area} (`{best}`, 95 % interval {low} to {high})", f"needs {power}"]
    facts += [f"Iso-CapsNet has {area}" for method, area, *_ in areas if method == "isocapsnet"]
    assert [fact for fact in facts if fact not in sentence] == []


def source_of(target):
    """The file that a page of the gallery is built from; any other file is its own source."""
    if target.parent.name != "gallery":
        return target
    return ROOT / "examples" / ("GALLERY_HEADER.rst" if target.stem == "index" else f"{target.stem}.py")


def test_every_page_is_in_the_site():
    """A page that no table of contents names would be a warning of the build, which the suite does not run."""
    listed = set()
    for index in ROOT.glob("docs/**/index.md"):
        for block in re.findall(r"```{toctree}\n(.*?)```", index.read_text(encoding="utf-8"), re.DOTALL):
            entries = [line for line in block.split() if not line.startswith(":") and not line.isdigit()]
            listed |= {(index.parent / entry).resolve() for entry in entries}
    pages = {page.with_suffix("") for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert pages - listed == {ROOT / "docs" / "index"}


def test_the_examples_of_the_page_on_extensions_work(tmp_path, monkeypatch):
    text = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    method, parameters, transform, reader = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    scope = {}
    for example in (method, transform, reader):
        exec(example, scope)
    graphs = np.random.default_rng(0).normal(size=(5, 3, 3))
    centring, other = scope["EdgeCentring"]().fit(graphs), scope["EdgeCentring"]()
    np.testing.assert_allclose(centring.transform(graphs).mean(axis=0), 0, atol=1e-12)
    other.n_nodes_in_ = centring.n_nodes_in_
    other._set_state(*centring._get_state())
    np.testing.assert_array_equal(other.transform(graphs), centring.transform(graphs))
    monkeypatch.setattr(readers, "READERS", {"upper": scope["READER"], **readers.READERS})
    lines = [f"{label} {weight} 0 {-weight}" for label, weight in [("control", 1), ("case", 2)] * 3]
    (tmp_path / "study.upper").write_text("\n".join(lines))
    data = load_graphs(tmp_path / "study.upper")
    np.testing.assert_array_equal(data.adjacency[1], [[0, 2, 0], [2, 0, -2], [0, -2, 0]])
    model = scope["NearestMeanClassifier"]().fit(data.adjacency, data.labels)
    assert model.score(data.adjacency, data.labels) == 1
    copy = scope["NearestMeanClassifier"]()
    copy.classes_, copy.n_nodes_in_ = model.classes_, model.n_nodes_in_
    copy._set_state(*model._get_state())
    np.testing.assert_array_equal(copy.means_, model.means_)
    for damaged in ("control 1 x 3", "control 1 2", "\n"):
        (tmp_path / "study.upper").write_text(damaged)
        with pytest.raises(InputError, match=r"study\.upper"):
            load_graphs(tmp_path / "study.upper")
    exec(parameters, scope)
    assert scope["NearestMeanClassifier"](absolute=True).get_params() == {"absolute": True}
    with pytest.raises(InputError, match="absolute"):
        scope["NearestMeanClassifier"](absolute="no").fit(data.adjacency, data.labels)


def test_the_check_of_links_names_what_is_missing(tmp_path):
    spec = importlib.util.spec_from_file_location("check_links", ROOT / "docs" / "check_links.py")
    check_links = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check_links)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text('<h1 id="here">x</h1><a href="../a%20b.html#top">back</a>')
    (tmp_path / "style.css").write_text("")
    page = tmp_path / "a b.html"
    page.write_text(
        '<link rel="stylesheet" href="style.css?v=1"><a href="sub/#here">1</a><a href="https://example.org/x">2</a>'
        '<a href="#">3</a><img src="data:image/png;base64,AA==">'
    )
    assert check_links.check(tmp_path) == []
    page.write_text(
        '<a href="sub/#there">1</a><a href="gone.html">2</a><img src="gone.png">'
        '<script src="https://example.org/x.js"></script>'
    )
    assert check_links.check(tmp_path) == [
        "a b.html: gone.html does not exist",
        "a b.html: gone.png does not exist",
        "a b.html: https://example.org/x.js is loaded from another server",
        "a b.html: sub/#there has no such anchor",
    ]
    assert check_links.check(tmp_path / "nothing") == [f"{tmp_path / 'nothing'} has no pages"]
