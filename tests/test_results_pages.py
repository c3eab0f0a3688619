"""``make results``: runs what changed, leaves the rest, and says which datasets are not at hand."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from isocapsnet import BrainGraphs, make_planted_graphs
from isocapsnet.datasets.catalog import CATALOG
from isocapsnet.models import MODELS

_ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def results() -> Iterator[ModuleType]:
    sys.path.insert(0, str(_ROOT / "benchmarks"))
    import results

    yield results
    sys.path.remove(str(_ROOT / "benchmarks"))


@pytest.fixture
def toy(results: ModuleType, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Two sections of a dataset that is here, and one of a dataset that is not."""
    planted = make_planted_graphs(24, 8, random_state=0)
    here = {"toy": BrainGraphs(planted.graphs, planted.labels, name="toy")}
    small = "isocapsnet[max_epochs=1,decoder_sizes=(4,)]"
    runs = (
        results.Run("toy", "toy", "Toy: all methods", ("linear", "constant")),
        results.Run("toy_sizes", "toy", "Toy: sizes", (small,), "kernel_size=3,4"),
        results.Run("absent", "elsewhere", "Elsewhere", ("linear",)),
    )
    monkeypatch.setattr(results, "RUNS", runs)
    monkeypatch.setattr(results, "open_data", here.get)
    monkeypatch.setattr(results, "draw", lambda run, folder, images: None)
    return here


def _call(results: ModuleType, folder: Path, *arguments: str) -> str:
    results.main(["--results", str(folder / "runs"), "--pages", str(folder / "docs"), "--jobs", "0", *arguments])
    return (folder / "docs" / "results.md").read_text() if (folder / "docs" / "results.md").exists() else ""


@pytest.mark.filterwarnings("ignore")
def test_sections_are_written_once_and_then_left_as_they_are(
    results: ModuleType, toy: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    kept = "# Results\n\nby hand\n\n<!-- begin absent -->\nfrom elsewhere\n<!-- end absent -->\n"
    (tmp_path / "docs" / "results.md").write_text(kept)
    text = _call(results, tmp_path)
    assert text.startswith(kept.rstrip())
    assert "## Toy: all methods" in text and "| `linear` |" in text
    assert "## Toy: sizes" in text and "with its own graph" in text
    assert "isocapsnet benchmark toy --protocol paper --methods linear,constant" in text
    assert str(tmp_path) not in text
    assert "elsewhere is not at hand" in capsys.readouterr().out
    # Nothing changed: nothing is run, even without the results folders.
    (tmp_path / "runs").rename(tmp_path / "moved")
    assert _call(results, tmp_path) == text
    assert not (tmp_path / "runs").exists()
    assert capsys.readouterr().out.count("unchanged") == 2
    # Other data: both sections are run again, and the page has their new versions.
    toy["toy"] = toy["toy"].replace(adjacency=np.asarray(toy["toy"].X)[::-1].copy())
    again = _call(results, tmp_path, "--only", "toy")
    versions = [re.findall(r"<!-- version (\w+) -->", page) for page in (text, again)]
    assert versions[0][0] != versions[1][0] and versions[0][1] == versions[1][1]
    assert (tmp_path / "runs" / "toy" / "results.json").exists()


@pytest.mark.filterwarnings("ignore")
def test_a_section_says_which_transform_was_chosen_in_how_many_folds(
    results: ModuleType, toy: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"protocol": "nested", "repeats": 1, "choose_transform": ("scale", "log"), "explain": False}
    run = results.Run("toy_prepared", "toy", "Toy: prepared", ("linear", "constant"), options=options)
    monkeypatch.setattr(results, "RUNS", (run,))
    text = _call(results, tmp_path)
    assert "--protocol nested --repeats 1 --choose-transform scale,log --no-explain" in text
    header, _, *rows = [line.split(" | ") for line in text.splitlines() if line.startswith("|")]
    chosen = next(row for row in rows if "`linear`" in row[0])[header.index("transform (folds)")]
    assert sum(int(part.split()[-1]) for part in chosen.split(", ")) == 3
    assert next(row for row in rows if "`constant`" in row[0])[header.index("transform (folds)")] == "-"


def test_pages_are_written_later_from_the_folders(results: ModuleType, toy: dict[str, Any], tmp_path: Path) -> None:
    assert _call(results, tmp_path, "--only", "toy", "--run-only") == ""
    text = _call(results, tmp_path, "--write")
    assert "Toy: all methods" in text and "Toy: sizes" not in text


@pytest.mark.filterwarnings("ignore")
def test_a_section_names_the_machines_that_computed_it(
    results: ModuleType, toy: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _call(results, tmp_path)
    [first, second] = re.findall(r"\n```\n\n(Measured on: .*)\n\n\|", text)
    machine = results.describe_machine(results.RUNS[0], 0)
    assert first == second == f"Measured on: {machine}."
    # Written again on another machine, the section keeps the machine that computed it.
    monkeypatch.setattr(results, "describe_machine", lambda run, jobs: "another machine")
    assert _call(results, tmp_path, "--write") == text
    (tmp_path / "docs" / "results.md").unlink()
    assert _call(results, tmp_path) == text
    # A record that another machine computes is named, and so is one without a note.
    record, other, *_ = sorted((tmp_path / "runs" / "toy" / "records").glob("*/*.json"))
    record.unlink()
    (tmp_path / "docs" / "results.md").unlink()
    text = _call(results, tmp_path, "--only", "toy")
    assert re.search(f"Measured on: .*{re.escape(machine)}", text) and "another machine" in text
    notes = tmp_path / "runs" / "toy" / "machines.json"
    kept = json.loads(notes.read_text())
    del kept[other.relative_to(tmp_path / "runs" / "toy").as_posix()]
    notes.write_text(json.dumps(kept))
    assert f"1 of {len(kept) + 1} jobs on a machine without a note" in _call(results, tmp_path, "--write")
    notes.unlink()  # as in folders that were written before machines were noted
    assert "Measured on" not in _call(results, tmp_path, "--write", "--only", "toy").split("## Toy: sizes")[0]


def test_a_machine_has_its_instructions_threads_and_gpu(results: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    run = results.RUNS[0]
    capability = re.escape(f"({results.torch.backends.cpu.get_cpu_capability()})")
    ending = f", 1 thread per job, torch {re.escape(results.torch.__version__)}"
    monkeypatch.setattr(results.torch.cuda, "is_available", lambda: False)
    assert re.fullmatch(f".+ {capability}{ending}", results.describe_machine(run, None))
    monkeypatch.setattr(results.torch, "get_num_threads", lambda: 3)
    assert "3 threads per job" in results.describe_machine(run, 0)
    monkeypatch.setattr(results.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(results.torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    with_gpu = results.describe_machine(run, None)
    assert re.fullmatch(f".+ {capability} and NVIDIA H200 for networks{ending}", with_gpu)
    assert "NVIDIA" not in results.describe_machine(run._replace(script="script.py"), None)


def test_figures_without_a_brain_have_their_own_caption(results: ModuleType, tmp_path: Path) -> None:
    runs = {run.name: run for run in results.RUNS}
    for name in ("peking_1_kernel_size", "hiv_fmri_34_kernel_size"):
        (tmp_path / results.image_name(runs[name], "reconstruction")).touch()
    without = results.figures_of(runs["peking_1_kernel_size"], tmp_path, has_brain=False)
    assert "![Matrix and" in without and "CC200" in without
    assert "![Strongest edges" in results.figures_of(runs["hiv_fmri_34_kernel_size"], tmp_path, has_brain=True)
    assert results.figures_of(runs["hiv_dti_released_kernel_size"], tmp_path, has_brain=True) == ""


def test_rows_of_a_script_are_collected_fold_by_fold(
    results: ModuleType, toy: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nprint('| data | fold |\\n| --- | --- |')\nprint('|', sys.argv[1], '|', sys.argv[3], '|')"
    )
    run = results.Run("toy_rows", "toy", "Toy: rows", ("linear",), script=str(script))
    monkeypatch.setattr(results, "RUNS", (run,))
    toy["toy"] = toy["toy"].replace(folds=[np.arange(0, 12), np.arange(12, 24)])
    text = _call(results, tmp_path)
    assert "| data | fold |\n| --- | --- |\n| toy | 1 |\n| toy | 2 |\n<!-- end" in text
    assert re.search(r"\n```\n\nMeasured on: .*\.\n\n\| data", text)
    [part] = (tmp_path / "runs" / "toy_rows").glob("*/2.md")
    part.write_text(part.read_text().replace("toy", "kept"))
    (part.parent / "1.md").unlink()
    (tmp_path / "docs" / "results.md").unlink()
    assert "| toy | 1 |\n| kept | 2 |" in _call(results, tmp_path)  # what is there is not run again
    script.write_text(script.read_text() + "\n")
    assert "| toy | 1 |\n| toy | 2 |" in _call(results, tmp_path)  # unless the script has changed


def test_a_version_follows_the_command_the_data_and_the_methods(
    results: ModuleType, toy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, data = results.RUNS[0], toy["toy"]
    version = results.version_of(run, data)
    assert version == results.version_of(run, data.replace(name="toy"))
    others = [run._replace(methods=("linear",)), run._replace(name="other")]
    assert len({version, *(results.version_of(other, data) for other in others)}) == 3
    monkeypatch.setattr(MODELS["linear"], "version", 99)
    assert results.version_of(run, data) != version


def test_names_of_runs_are_unique_and_their_datasets_in_the_catalog(results: ModuleType) -> None:
    names = [run.name for run in results.RUNS]
    assert len(set(names)) == len(names)
    assert {run.data for run in results.RUNS} <= set(CATALOG)
    assert set(results.published.SOURCES) <= set(names)
    for run in results.RUNS:
        assert [method.label for method in results.list_methods(list(run.methods))]
    with pytest.raises(results.InputError, match="hiv_dtj"):
        results.select("hiv_dtj")


def test_nothing_is_downloaded(results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOCAPSNET_DATA", str(tmp_path))
    monkeypatch.setenv("ISOCAPSNET_CACHE", str(tmp_path))
    assert [results.open_data(name) for name in {run.data for run in results.RUNS}] == [None] * 7
    planted = make_planted_graphs(34, 8, random_state=0)
    data = BrainGraphs(planted.graphs, np.where(planted.labels == 0, "-1", "1"))
    data.save(tmp_path / "hiv_fmri_34.npz")
    assert results.open_data("hiv-fmri-34").name == "hiv-fmri-34"


# -- does the figure hold? -------------------------------------------------------------------------------------


def test_constant_answers_are_those_of_scikit_learn(results: ModuleType) -> None:
    from sklearn.metrics import f1_score

    for counts in results.published.SUBJECTS.values():
        truth = np.repeat([0, 1], counts)
        answer = np.full(len(truth), int(np.argmax(counts)))
        constant = results.published.constant_answer(counts)
        assert constant.accuracy == pytest.approx(np.mean(truth == answer))
        assert constant.weighted_f1 == pytest.approx(f1_score(truth, answer, average="weighted"))


def test_p_values_are_those_of_counting(results: ModuleType) -> None:
    rng = np.random.default_rng(0)
    right = rng.binomial(76, 56 / 76, size=200_000)
    assert results.published.p_value(0.750, (56, 20)) == pytest.approx(np.mean(right >= 57), abs=0.005)


def test_table_2_has_two_constant_answers_on_23_subjects(results: ModuleType) -> None:
    rows = results.published.table_2().splitlines()
    assert rows[2].endswith("| 6 | always negative |") and rows[6].endswith("| 17 | always positive |")
    assert "none" in rows[5]


def test_a_figure_outside_the_interval_is_named(results: ModuleType) -> None:
    def metrics(mean: float) -> dict[str, dict[str, float]]:
        interval = {"mean": mean, "low": mean - 0.05, "high": mean + 0.05}
        return {"accuracy": interval, "weighted_f1": interval}

    content = {
        "methods": [{"method": name, "metrics": metrics(0.72)} for name in ("isocapsnet", "wl", "linear", "constant")],
        "passport": {"n_graphs": 76, "classes": {"-1": 20, "1": 56}},
        "command": "isocapsnet benchmark hiv-dti",
    }
    text = results.published.comparison(content, results.published.SOURCES["hiv_dti"])
    assert re.search(r"`isocapsnet` \| 0.750 \| 0.720 \[0.670, 0.770\] \| 0.672 .*\| yes \|", text)
    assert re.search(r"`wl` \| 0.427 .*\| no \|", text)
    assert "The same data" in text
    assert "outside our interval in 1 of 2 rows: below it for `wl`. Our intervals are 0.10 wide" in " ".join(
        text.split()
    )
    assert "**Different data**" in results.published.comparison(content, results.published.SOURCES["peking_1"])


# -- the pages as they are ---------------------------------------------------------------------------------------


def _section(page: str, name: str) -> str:
    text = (_ROOT / "docs" / page).read_text()
    return text.partition(f"<!-- begin {name} -->")[2].partition(f"<!-- end {name} -->")[0]


@pytest.mark.parametrize("name", ["hiv_dti", "hiv_fmri_34", "peking_1"])
def test_what_follows_from_a_table_stands_below_it(results: ModuleType, name: str) -> None:
    section = _section("published.md", name)
    rows = re.findall(r"^\| `(.+?)` \| (0\.\d+) \| \S+ \[(\S+), (\S+)\] .* (yes|no) \|$", section, re.MULTILINE)
    assert len(rows) == 14
    compared = [(method, *map(float, figures)) for method, *figures, _ in rows]
    assert section.rstrip().endswith(results.paper_tables.paragraph(results.published.what_follows(compared)))
    outside = {method for method, *_, answer in rows if answer == "no"}
    assert outside == set(re.findall("`(.+?)`", section.rpartition("|\n\n")[2]))


def test_both_pages_set_the_same_figures_of_the_paper_beside_a_method() -> None:
    published = re.findall(
        r"^\| `(.+?)` \| (\S+) \| .*? \| (\S+) \|", _section("published.md", "hiv_dti"), re.MULTILINE
    )
    table = r"^\| `(.+?)` \| \S+ \| (\S+) \| \S+ \| (\S+) \|"
    ours = re.findall(table, _section("results.md", "hiv_dti"), re.MULTILINE)
    assert sorted(published) == sorted(ours) and len(ours) == 17


def test_sections_of_template_sizes_say_what_the_generator_says(results: ModuleType) -> None:
    names = [run.name for run in results.RUNS if run.param and _section("results.md", run.name)]
    assert set(results.REMARKS) <= set(names)
    for name in names:
        section = _section("results.md", name)
        assert results.paper_tables.paragraph(results.paper_tables._ABOUT_SIZES) in section
        captions = results.FIGURES_WITHOUT_BRAIN if name == "peking_1_kernel_size" else results.FIGURES
        assert re.findall(r"^!\[(.*)\]", section, re.MULTILINE) == list(captions.values())
        assert results.paper_tables.paragraph(results.REMARKS.get(name, "")) in section


def test_the_command_for_absent_data_names_all_their_sections(results: ModuleType) -> None:
    text = (_ROOT / "docs" / "published.md").read_text()
    command = text.partition("### Data that we do not have")[2].partition("make results ONLY=")[2].split()[0]
    absent = {"hiv-fmri", "bp-fmri", "adhd-fmri"}
    assert command.split(",") == [run.name for run in results.RUNS if run.data in absent]
