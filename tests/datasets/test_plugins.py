"""Readers of other packages, found through entry points, and what a new reader of our own takes."""

import sys

import numpy as np
import pytest
from click.testing import CliRunner

from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets import readers
from isocapsnet.datasets.connectivity import TRANSFORMS
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import READERS, load_graphs
from isocapsnet.datasets.reading import Reader, assemble
from isocapsnet.datasets.transformer import GraphTransformer

#: A whole plugin: text files of upper triangles, one line per subject, the label first.
PLUGIN = """
import numpy as np
from isocapsnet.datasets import Reader, assemble


def recognise(source):
    return getattr(source, "suffix", "") == ".triangles"


def read(path, options, findings, limit):
    limit.check(path.stat().st_size, path.name)
    lines = [line.split() for line in path.read_text().splitlines()]
    graphs = []
    for _, *values in lines:
        n_nodes = int((1 + (1 + 8 * len(values)) ** 0.5) / 2)
        graph = np.zeros((n_nodes, n_nodes))
        graph[np.triu_indices(n_nodes, k=1)] = [float(value) for value in values]
        graphs.append(graph + graph.T)
    subjects = [f"s{i}" for i in range(len(graphs))]
    return assemble(graphs, subjects, options, findings, labels=[line[0] for line in lines], name=path.stem)


READER = Reader(recognise, read)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a distribution with one module and its entry points where Python finds it."""
    site = tmp_path / "site"

    def write(entry_points, **modules):
        info = site / "isocapsnet_toy-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: isocapsnet-toy\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[isocapsnet.readers]\n{entry_points}\n")
        for name, source in modules.items():
            (site / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(site)

    yield write
    for name in ("toy_reader", "toy_broken"):
        sys.modules.pop(name, None)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "study.triangles"
    path.write_text("".join(f"{'ab'[i % 2]} {i} 0.5 {i / 7}\n" for i in range(8)))
    return path


def test_an_installed_reader_is_used_by_function_and_command(install, path, recwarn):
    with pytest.raises(InputError, match="not supported"):
        load_graphs(path)
    install("triangles = toy_reader:READER", toy_reader=PLUGIN)
    data = load_graphs(path, exclude=["s3"])
    assert data.adjacency.shape == (7, 3, 3)
    assert data.adjacency[2].tolist() == [[0, 2, 0.5], [2, 0, 2 / 7], [0.5, 2 / 7, 0]]
    assert data.label_names == ("a", "b")
    assert dict(data.exclusions) == {"s3": "excluded on request"}
    with pytest.raises(InputError, match="select= does not apply"):
        load_graphs(path, select=["x"])
    result = CliRunner().invoke(main, ["data", "check", str(path)])
    assert result.exit_code == 0, result.output
    assert "8 graphs of 3 nodes" in result.output
    assert not recwarn.list


def test_an_exception_of_a_plugin_refuses_the_file(install, path):
    install("triangles = toy_reader:READER", toy_reader=PLUGIN)
    path.write_text("a 1 2 three\nb 1 2 3\n")
    with pytest.raises(InputError, match=r"study\.triangles .*'triangles'"):
        load_graphs(path)
    result = CliRunner().invoke(main, ["data", "check", str(path)])
    assert result.exit_code == 2
    assert "study.triangles" in result.output


def test_what_does_not_belong_together_is_refused(install, path):
    source = PLUGIN.replace("labels=[line[0] for line in lines]", "labels=['a']")
    install("triangles = toy_reader:READER", toy_reader=source)
    with pytest.raises(InputError, match="8 subjects but 1 labels"):
        load_graphs(path)


def test_a_plugin_reads_folders_that_no_special_reader_recognises(install, path, tmp_path):
    source = PLUGIN.replace('getattr(source, "suffix", "") == ".triangles"', '(source / "all.triangles").exists()')
    install(
        "triangles = toy_reader:READER",
        toy_reader=source.replace("path.stat()", "(path / 'all.triangles').stat()").replace(
            "path.read_text()", "(path / 'all.triangles').read_text()"
        ),
    )
    folder = tmp_path / "study"
    folder.mkdir()
    path.rename(folder / "all.triangles")
    assert len(load_graphs(folder)) == 8


def test_plugins_are_not_loaded_for_what_a_built_in_reader_recognises(install, tmp_path, study, recwarn):
    install("broken = toy_broken:READER", toy_broken="raise RuntimeError('too early')")
    study.save(tmp_path / "study.npz")
    assert len(load_graphs(tmp_path / "study.npz")) == 12
    assert "toy_broken" not in sys.modules
    assert not recwarn.list


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        ("broken = toy_broken:READER", "raise RuntimeError('it is broken')"),
        ("broken = toy_broken:READER", "READER = 5"),
        ("broken = toy_broken:MISSING", ""),
        ("broken = toy_absent:READER", ""),
        ("folder = toy_reader:READER", ""),
        (
            "broken = toy_broken:READER",
            "from isocapsnet.datasets import Reader\nREADER = Reader(lambda source: 1 / 0, None)",
        ),
    ],
    ids=["fails", "not a reader", "no such name", "no such module", "built-in name", "fails to recognise"],
)
def test_a_broken_plugin_costs_a_warning_that_names_it(install, path, entry, source):
    install(f"{entry}\nzz = toy_reader:READER", toy_broken=source, toy_reader=PLUGIN)
    with pytest.warns(UserWarning, match=rf"'{entry.split()[0]}'.*{entry.split()[2].split(':')[0]}"):
        assert len(load_graphs(path)) == 8


def test_a_reader_is_a_file_and_a_line_in_the_registry(tmp_path, monkeypatch):
    """What adding a format takes: an object of one module, and its entry in READERS."""

    def read_pairs(path, options, findings, limit):
        graphs = [np.full((3, 3), float(value)) for value in path.read_text().split()]
        return assemble(graphs, [f"s{i}" for i in range(len(graphs))], options, findings, name=path.stem)

    reader = Reader(lambda source: getattr(source, "suffix", "") == ".levels", read_pairs)
    monkeypatch.setattr(readers, "READERS", {"levels": reader, **READERS})
    (tmp_path / "x.levels").write_text("1 2 3")
    assert load_graphs(tmp_path / "x.levels").adjacency[:, 0, 0].tolist() == [1, 2, 3]


class Negated(GraphTransformer):
    """A whole transform."""

    def _transform(self, X):
        return -X


def test_a_transform_is_a_class_and_a_line_in_the_registry(monkeypatch, study):
    monkeypatch.setitem(TRANSFORMS, "negate", Negated)
    graphs = np.array(study.adjacency)
    assert np.array_equal(TRANSFORMS["negate"]().fit_transform(graphs), -graphs)
    arguments = ["benchmark", "planted", "--transform", "negate", "--methods", "linear", "--jobs", "0", "--dry-run"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output


def test_every_reader_is_declared(tmp_path):
    assert all(isinstance(reader, Reader) for reader in READERS.values())
    assert not any(reader.recognise(tmp_path / "nothing") or reader.recognise(5) for reader in READERS.values())
    assert list(READERS)[-1] == "folder"  # it takes any folder
    assert READERS["folder"].recognise(tmp_path)


def test_an_object_that_is_no_path_is_refused():
    with pytest.raises(InputError, match="int"):
        load_graphs(5)


def test_a_dataset_is_read_as_it_is():
    data = BrainGraphs(np.zeros((2, 3, 3)), subjects=["a", "b"])
    assert load_graphs(data).digest() == data.digest()
    assert load_graphs(data, exclude="a").subjects.tolist() == ["b"]
