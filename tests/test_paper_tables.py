"""docs/results.md: the paper's figures are the paper's, and sections replace only themselves."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import isocapsnet as ic
from isocapsnet.datasets.synthetic import make_planted_graphs

_ROOT = Path(__file__).parents[1]
_PAPER = _ROOT.parent / "shared" / "paper" / "iso-capsnet.tex"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("paper_tables", _ROOT / "benchmarks" / "paper_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not _PAPER.exists(), reason="the paper's source is not here")
def test_the_papers_figures_are_those_in_its_source(tables: ModuleType) -> None:
    found: dict[str, list[tuple[float, ...]]] = {}
    for line in _PAPER.read_text().splitlines():
        if match := re.match(r"&\{(HIV-fMRI|HIV-DTI|BP-fMRI|ADHD-fMRI)\}(.*)", line):
            found.setdefault(match[1].lower(), []).append(tuple(map(float, re.findall(r"0\.\d{3}", match[2]))))
    assert {name: [rows["accuracy"], rows["f1"]] for name, rows in tables.PAPER_TABLE_1.items()} == found
    rows = re.findall(r"^(\d) & (.*?) & (.*?) & ([\d.]+) &", _PAPER.read_text(), re.MULTILINE)
    plain = {int(k): tuple(float(re.sub(r"[^\d.]", "", cell)) for cell in cells) for k, *cells in rows}
    assert plain == tables.PAPER_TABLE_2


def test_a_section_replaces_itself_and_nothing_else(tables: ModuleType) -> None:
    text = tables.put_section("# Results\n\nby hand\n", "a", "first")
    text = tables.put_section(text, "b", r"with \1 in it")
    text = tables.put_section(text, "a", "second")
    assert text == (
        "# Results\n\nby hand\n\n<!-- begin a -->\nsecond\n<!-- end a -->\n\n"
        "<!-- begin b -->\nwith \\1 in it\n<!-- end b -->\n"
    )


def test_the_last_column_is_the_verdict_of_the_other_test_for_the_same_records(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = make_planted_graphs(60, 8, signal_to_noise=4, random_state=0)
    data = ic.BrainGraphs(planted.graphs, planted.labels, name="planted")
    results = ic.benchmark(
        data, ["linear[C=1.0]", "constant"], out=tmp_path / "planted", folds=2, repeats=1, jobs=0, progress=False
    )
    other = ic.open_results(tmp_path / "planted", test="resampled-t").verdicts
    assert results.verdicts["linear[C=1.0]"].startswith("above chance")
    assert other["linear[C=1.0]"].startswith("not distinguishable from chance (")
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "planted"), "--out", str(tmp_path / "results.md")])
    tables.main()
    [row] = [line for line in (tmp_path / "results.md").read_text().splitlines() if line.startswith("| `linear")]
    assert row.endswith(f"| {results.verdicts['linear[C=1.0]']} | not distinguishable from chance |")


def test_a_section_has_ours_beside_the_papers(tables: ModuleType) -> None:
    interval = {"mean": 0.6, "low": 0.5, "high": 0.7}
    names = ("accuracy", "weighted_f1", "balanced_accuracy", "roc_auc")
    method = {"metrics": dict.fromkeys(names, interval), "seconds": 1.5, "verdict": "above chance"}
    content = {
        "passport": {"name": "hiv_dti", "n_graphs": 76, "n_nodes": 90, "classes": {"-1": 20, "1": 56}},
        "protocol": {"name": "paper"},
        "detectable": {"n_scores": 3, "above_chance": 0.9},
        "command": "isocapsnet benchmark hiv_dti.npz",
        "methods": [{**method, "method": name} for name in ("isocapsnet", "isocapsnet-released", "constant")],
    }
    section = tables._benchmark_section(content, {"isocapsnet": "undecided", "constant": "above chance"}, {})
    row = "| `isocapsnet` | 0.600 | 0.750 | 0.600 | 0.672 | 0.600 | 0.600 [0.500, 0.700] | 1.50 | above chance |"
    assert f"{row} undecided |" in section
    assert "above chance | - |" in section
    assert "1 of 3 verdicts" in section and "--test resampled-t" in section
    assert "| `constant` | 0.600 | - | 0.600 | - |" in section
    # The paper's figures of Iso-CapsNet come from the authors' program, so they are those of both rows.
    assert "| `isocapsnet-released` | 0.600 | 0.750 | 0.600 | 0.672 |" in section
