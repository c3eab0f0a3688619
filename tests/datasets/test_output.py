"""Hostile and endless data: what is printed is bounded and harmless, and so are the tables that are written."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from isocapsnet._safe_text import list_some, printable, spreadsheet_safe
from isocapsnet.cli import main
from isocapsnet.datasets.duplicates import find_duplicates
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import examine_graphs

from . import writers

#: An escape sequence that hides text, a line break, a bidirectional override, a bell and a formula.
HOSTILE = "a\x1b[8m\nb\u202ec\x07\u2066"
FORMULA = '=HYPERLINK("http://example.org","click")'


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


def assert_harmless(result):
    assert "Traceback" not in result.output
    for line in result.output.splitlines():
        assert line.isprintable(), line
        assert len(line) < 1200


@pytest.mark.parametrize("text", [HOSTILE, "\udc80", "\x9b31m", "a\u2028b", "\u200f\ufeff", "x" * 10_000])
def test_printable_text_is_one_short_line_that_shows_everything(text):
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) < 1200
    assert printable("Müller’s 脳 – 5 %") == "Müller’s 脳 – 5 %"


def test_lists_are_cut():
    assert list_some(["a", "b"]) == "a, b"
    assert list_some(range(1000), 3) == "0, 1, 2 and 997 more"


@pytest.fixture
def hostile_study(tmp_path, study):
    """Names of files, columns, classes and subjects that want to do something to the terminal."""
    folder = tmp_path / HOSTILE.replace("\n", "\r")
    folder.mkdir()
    ids = [f"{i}{HOSTILE}" for i in range(12)]
    for subject, graph in zip(ids, study.adjacency, strict=True):
        np.save(folder / f"{subject}.npy", graph)
    table = pd.DataFrame({"participant_id": range(12), f"dx{HOSTILE}": [f"{HOSTILE}{i % 2}" for i in range(12)]})
    table.to_csv(tmp_path / "participants.csv", index=False)
    return folder


def test_names_from_data_cannot_reach_the_terminal(tmp_path, hostile_study):
    commands = [
        ("data", "check", hostile_study),
        ("data", "describe", hostile_study),
        ("data", "convert", hostile_study, tmp_path / "out.npz"),
        ("data", "check", hostile_study, "--target", "nothing", "--participants", tmp_path / "participants.csv"),
        ("data", "check", hostile_study / HOSTILE),
        ("fit", hostile_study, "--out", tmp_path / "m", "--method", "linear"),
        ("predict", tmp_path / HOSTILE, hostile_study, "--out", tmp_path / "p.csv"),
        ("data", "describe", "--atlas", HOSTILE, hostile_study),
        ("data", "check", hostile_study, HOSTILE),
    ]
    for command in commands:
        assert_harmless(run(*command))
    (hostile_study / f"0{HOSTILE}.npy").write_bytes(b"damaged")
    result = run("data", "check", hostile_study)
    assert_harmless(result)
    assert "\\x1b" in result.output


def test_tables_of_a_benchmark_are_harmless(tmp_path, study):
    data = study.replace(
        labels=[i % 2 for i in range(12)], label_names=(f"{HOSTILE}[red]", FORMULA), name=HOSTILE, folds=()
    )
    data.save(tmp_path / "study.npz")
    result = run("benchmark", tmp_path / "study.npz", "--methods", "constant", "--jobs", 0, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert_harmless(result)


# -- bounded ----------------------------------------------------------------------------------------------------


def test_check_prints_the_first_few_of_many_and_json_all(tmp_path, study):
    folder = writers.write_folder(study, tmp_path / "study", ".csv")
    table = (folder / "participants.tsv").read_text()
    more = "\n".join(f"x{i}\t-1\tnorth\t20\tf" for i in range(500))
    (folder / "participants.tsv").write_text(table + more + "\n" + more + "\n")
    for subject in study.subjects:
        (folder / f"{subject}.csv").write_text("nonsense\n")
    result = run("data", "check", folder, "--target", "diagnosis")
    assert result.exit_code == 2
    assert len(result.output.splitlines()) < 15
    assert "and 9 more of this kind; --list" in result.output
    assert "excluded  500 subjects (x0, x1, x2 and 497 more)" in result.output
    run("data", "check", folder, "--target", "diagnosis", "--list", tmp_path / "all.csv")
    listed = pd.read_csv(tmp_path / "all.csv")
    assert listed["kind"].value_counts()[["refused", "excluded"]].tolist() == [12, 500]
    assert listed.loc[listed["kind"] == "refused", "where"].tolist() == [f"{subject}.csv" for subject in study.subjects]
    full = json.loads(run("data", "check", folder, "--target", "diagnosis", "--json").output)
    assert full["usable"] is False
    assert len(full["errors"]) == 12
    assert len(full["exclusions"]) == 500


def test_the_record_of_mended_files_is_cut(tmp_path, study):
    folder = writers.write_folder(study.replace(adjacency=np.triu(study.adjacency)), tmp_path / "study", ".csv")
    result = run("data", "check", folder)
    (line,) = [line for line in result.output.splitlines() if "mirrored" in line]
    assert "12 (1000.csv, 1007.csv, 1014.csv and 9 more)" in line


def test_a_study_of_equal_subjects_gives_one_sentence(study):
    """Half a million pairs are counted, and the first few named."""
    data = BrainGraphs(np.repeat(study.adjacency[:1], 1000, axis=0), [i % 2 for i in range(1000)])
    pairs, n_pairs = find_duplicates(data)
    assert n_pairs == 1000 * 999 // 2
    assert len(pairs) == 100
    assert all(first != second for first, second, _ in pairs)


def test_near_duplicates_are_one_warning(tmp_path, study):
    data = study.replace(adjacency=np.repeat(study.adjacency[:1], 12, axis=0))
    _, findings = examine_graphs(writers.write_folder(data, tmp_path / "s", ".npy"))
    (sentence,) = [sentence for sentence in findings.warnings if "same person" in sentence]
    assert sentence.startswith("66 pair(s)")
    assert sentence.count(" and ") < 10


# -- spreadsheets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell", [FORMULA, "+1+1", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "-x", "＝1+1", "+", "-", "=", "--1"]
)
def test_formulas_in_texts_are_neutralised(cell):
    safe = spreadsheet_safe(pd.DataFrame({cell: [cell, "text"]}, index=[cell, "row"]))
    assert safe.iloc[0, 0] == safe.columns[0] == safe.index[0] == f"'{cell}"
    assert safe.iloc[1, 0] == "text"


def test_numbers_stay_numbers():
    frame = pd.DataFrame({"p": [-0.5, 1e-7], "class": ["-1", "+1"], "name": ["-1.5e-3", "-inf"], "count": [-3, 4]})
    pd.testing.assert_frame_equal(spreadsheet_safe(frame), frame)
    assert pd.read_csv(io.StringIO(spreadsheet_safe(frame).to_csv(index=False)))["p"].tolist() == [-0.5, 1e-7]


def test_predictions_and_features_hold_no_formula(tmp_path, study):
    data = study.replace(
        subjects=[f"{FORMULA}{i}" for i in range(12)],
        labels=[i % 2 for i in range(12)],
        label_names=("-1", "@x"),
        folds=(),
    )
    data.save(tmp_path / "study.npz")
    model = tmp_path / "model.safetensors"
    assert run("fit", tmp_path / "study.npz", "--method", "autoencoder[max_epochs=1]", "--out", model).exit_code == 0
    for command in ("predict", "transform"):
        result = run(command, model, tmp_path / "study.npz", "--out", tmp_path / "table.csv")
        assert result.exit_code == 0, result.output
        table = pd.read_csv(tmp_path / "table.csv", dtype=str)
        assert table["subject"].tolist() == [f"'{FORMULA}{i}" for i in range(12)]
        cells = table.drop(columns="subject").to_numpy().ravel()
        assert all(cell in ("-1", "'@x") or np.isfinite(float(cell)) for cell in cells)
