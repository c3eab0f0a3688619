"""docs/capabilities.md: its sentences follow from its figures, and its figures from the benchmark."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from isocapsnet import MODELS, InputError, open_results
from isocapsnet.evaluation.statistics import Interval

_ROOT = Path(__file__).parents[1]
PAGE = _ROOT / "docs" / "capabilities.md"
SETTINGS = {"protocol": "paper", "n_graphs": 24, "n_nodes": 8, "kernel_size": 4, "signal_to_noise": 5.0}


@pytest.fixture(scope="module")
def capabilities() -> ModuleType:
    sys.path.insert(0, str(_ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location("capabilities", _ROOT / "benchmarks" / "capabilities.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(_ROOT / "benchmarks"))
    return module


def row(version: int = 1, **scores: float) -> dict:
    return {"version": version, "scores": {name: [[value] * 3] for name, value in scores.items()}}


def test_a_run_replaces_its_own_cells_and_keeps_the_others(capabilities):
    first = capabilities.merge(None, SETTINGS, {"linear": row(existence=0.9, motif=0.5), "gin": row(motif=0.7)})
    second = capabilities.merge(first, SETTINGS, {"linear": row(motif=0.6)})
    assert second["methods"]["linear"]["scores"] == {"existence": [[0.9] * 3], "motif": [[0.6] * 3]}
    assert second["methods"]["gin"] == first["methods"]["gin"]


def test_cells_of_another_version_are_dropped(capabilities):
    first = capabilities.merge(None, SETTINGS, {"linear": row(existence=0.9, motif=0.5)})
    second = capabilities.merge(first, SETTINGS, {"linear": row(2, motif=0.6)})
    assert second["methods"]["linear"]["scores"] == {"motif": [[0.6] * 3]}


def test_other_settings_are_refused_by_name(capabilities):
    first = capabilities.merge(None, SETTINGS, {"linear": row(motif=0.5)})
    with pytest.raises(InputError, match="n_nodes"):
        capabilities.merge(first, SETTINGS | {"n_nodes": 60}, {})


def test_the_sentence_follows_from_the_intervals(capabilities):
    cells = {
        "existence": Interval(0.99, 0.95, 1.0),
        "hub": Interval(0.9, 0.81, 0.99),
        "motif": Interval(0.9, 0.79, 1.0),
        "wiring": Interval(0.7, 0.59, 0.79),
        "free wiring": Interval(0.7, 0.59, 0.81),
        "null": Interval(0.5, 0.4, 0.6),
    }
    sentence = capabilities.describe(cells)
    assert sentence == "sees existence and hub; sees in part motif; may see free wiring; does not see wiring."
    assert "null" in capabilities.describe(cells | {"null": Interval(0.7, 0.55, 0.8)})
    assert "none" in capabilities.describe({"motif": Interval(0.5, 0.4, 0.6)})


def test_methods_are_listed_with_the_effects_they_see_and_with_null_only_for_a_false_alarm(capabilities):
    rows = {"linear": row(existence=1.0, null=0.5), "gin": row(existence=0.5, null=1.0)}
    content = capabilities.merge(None, SETTINGS | {"n_graphs": 240}, rows)
    lines = capabilities.sections(content)["who sees each effect"]
    seen_by = {line.split(" | ")[0]: line.split(" | ")[2:] for line in lines[2:]}
    assert seen_by == {"| existence": ["`linear`", "–", "– |"], "| null": ["`gin`", "–", "– |"]}


def test_more_datasets_narrow_the_interval_and_the_method_that_sees_most_is_first(capabilities):
    rng = np.random.default_rng(0)
    scores = np.clip(rng.normal(0.7, 0.05, size=(5, 3)), 0, 1).tolist()
    widths = []
    for n_seeds in (1, 5):
        rows = {
            "linear": {"version": 1, "scores": {"motif": scores[:n_seeds]}},
            "gin": row(motif=0.9),
        }
        table = capabilities.summarise(capabilities.merge(None, SETTINGS | {"n_graphs": 240}, rows))
        assert list(table) == ["gin", "linear"]
        widths.append(table["linear"]["motif"].high - table["linear"]["motif"].low)
    assert widths[1] < 0.5 * widths[0]


def test_one_command_runs_writes_and_resumes(capabilities, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    command = ["capabilities.py", "--methods", "linear,constant", "--effects", "existence,free motif", "--seeds", "1"]
    command += [
        "--n-graphs",
        "24",
        "--n-nodes",
        "8",
        "--jobs",
        "0",
        "--out",
        str(tmp_path / "out"),
        "--page",
        str(page),
    ]
    monkeypatch.setattr(sys, "argv", command)
    capabilities.main()
    text, picture = page.read_text(), (tmp_path / "images" / "capabilities.png").read_bytes()
    assert text.count("`linear`") >= 2
    assert picture.startswith(b"\x89PNG")
    content = json.loads(page.with_suffix(".json").read_text())
    measured = open_results(tmp_path / "out" / "existence-0").table.set_index("method").loc["linear"]
    # With one dataset the interval is that of the benchmark.
    cell = capabilities.summarise(content)["linear"]["existence"]
    assert cell == pytest.approx((measured.roc_auc, measured.roc_auc_low, measured.roc_auc_high))
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("records/*/*")}
    assert written
    page.unlink()
    capabilities.main()
    assert page.read_text() == text
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("records/*/*")} == written


@pytest.mark.parametrize("option", [["--effects", "size"], ["--methods", "size"]])
def test_unknown_names_are_refused(capabilities, tmp_path, monkeypatch, capsys, option):
    options = ["--out", str(tmp_path), "--page", str(tmp_path / "page.md"), *option]
    monkeypatch.setattr(sys, "argv", ["capabilities.py", *options])
    with pytest.raises(SystemExit):
        capabilities.main()
    assert "'size'" in capsys.readouterr().err


def test_the_page_says_what_its_scores_say_about_every_method_and_effect(capabilities):
    content, page = json.loads(PAGE.with_suffix(".json").read_text()), PAGE.read_text()
    for name, lines in capabilities.sections(content).items():
        section = page.split(f"<!-- begin {name} -->\n")[1].split(f"\n<!-- end {name} -->")[0]
        assert section == "\n".join(lines)
    [measured] = capabilities.sections(content)["how it was measured"]
    assert {name for name in MODELS if f"`{name}`" in measured} == set(MODELS) - set(content["methods"])
    assert all(set(row["scores"]) == set(capabilities.EFFECTS) for row in content["methods"].values())
    shapes = {np.shape(folds)[1:] for row in content["methods"].values() for folds in row["scores"].values()}
    assert shapes == {(capabilities.N_FOLDS,)}
