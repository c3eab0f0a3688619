"""``isocapsnet data``: what it prints and how it exits."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from isocapsnet.cli import main
from isocapsnet.datasets.catalog import CATALOG
from isocapsnet.datasets.graphs import BrainGraphs
from tests.datasets import writers


def run(*arguments):
    return CliRunner().invoke(main, ["data", *map(str, arguments)])


def test_list_names_every_dataset():
    result = run("list")
    assert result.exit_code == 0
    assert all(name in result.output for name in CATALOG)


def test_describe_prints_the_passport(tmp_path, study):
    study.save(tmp_path / "study.npz")
    result = run("describe", tmp_path / "study.npz")
    assert result.exit_code == 0
    assert result.output.strip() == study.describe()
    as_json = json.loads(run("describe", tmp_path / "study.npz", "--json").output)
    assert as_json == study.passport
    assert "120 of 28 nodes" in run("describe", "planted").output


def test_convert_with_all_options(tmp_path, study):
    folder = writers.write_folder(study, tmp_path / "study", ".csv")
    out = tmp_path / "out.npz"
    options = ["--target", "diagnosis", "--site", "site", "--covariates", "age,sex", "--exclude", study.subjects[2]]
    result = run("convert", folder, out, *options)
    assert result.exit_code == 0, result.output
    assert f"written to {out}" in result.output
    data = BrainGraphs.load(out)
    assert len(data) == 11
    assert data.covariates.columns.tolist() == ["age", "sex"]
    assert data.passport["sites"] == {"north": 5, "south": 6}
    assert data.exclusions == {study.subjects[2]: "excluded on request"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("describe", "nowhere.npz"), "nowhere.npz"),
        (("fetch", "nothing"), "name='nothing' is unknown"),
        (("convert", "planted", "out.csv"), "out.csv does not end in .npz"),
    ],
)
def test_refused_input_is_one_sentence_and_exit_code_2(arguments, sentence):
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", ["", "list", "fetch", "describe", "check", "convert"])
def test_help_has_examples(command):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert "isocapsnet data" in result.output


def test_help_and_reading_do_without_torch_and_optional_packages():
    code = (
        "import sys\n"
        "for name in ('torch', 'nilearn', 'h5py', 'pooch', 'combatlearn', 'defusedxml'):\n"
        "    sys.modules[name] = None\n"
        "from click.testing import CliRunner\n"
        "from isocapsnet.cli import main\n"
        "result = CliRunner().invoke(main, ['data', 'describe', 'planted'])\n"
        "assert result.exit_code == 0, result.output\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
