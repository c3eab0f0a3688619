"""Learning curves over sample size: nested samples, the same test graphs, and a point for each share."""

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import isocapsnet as ic
from isocapsnet._reporting import make_content
from isocapsnet.cli import main
from isocapsnet.evaluation.jobs import Job
from isocapsnet.evaluation.protocol import Protocol
from isocapsnet.evaluation.results import tabulate
from isocapsnet.evaluation.samples import Samples
from isocapsnet.evaluation.shares import read_shares, take_share
from isocapsnet.evaluation.store import Store
from isocapsnet.report.figures import FIGURES
from isocapsnet.report.tables import learning_curve_table

SHARES = (0.2, 0.5, 0.8)


@pytest.fixture(scope="module")
def study() -> ic.BrainGraphs:
    planted = ic.make_planted_graphs(60, 8, signal_to_noise=2.0, random_state=0)
    person = [f"p{number // 2}" for number in range(60)]
    labels = np.repeat(np.arange(30) % 2, 2)
    return ic.BrainGraphs(planted.graphs, labels, covariates=pd.DataFrame({"person": person}), name="small")


@pytest.fixture(scope="module")
def results(study: ic.BrainGraphs, tmp_path_factory: pytest.TempPathFactory) -> ic.Results:
    out = tmp_path_factory.mktemp("curve") / "out"
    options = {"repeats": 1, "candidates": 1, "explain": False, "progress": False, "jobs": 0, "out": out}
    return ic.benchmark(study, ["linear", "constant"], learning_curve=SHARES, **options)


@pytest.mark.parametrize("group", [None, "person"])
def test_a_sample_holds_every_smaller_one_has_all_classes_and_keeps_people_whole(
    study: ic.BrainGraphs, group: str | None
) -> None:
    samples = Samples(study, group)
    for fold, split in enumerate(Protocol().splits(samples, 0)):
        parts = [take_share(samples, split, share, 0, fold) for share in (*SHARES, 1.0)]
        assert parts[-1] is split
        for smaller, larger in itertools.pairwise(parts):
            assert set(smaller.train.tolist()) < set(larger.train.tolist())
        for share, part in zip(SHARES, parts, strict=False):
            assert np.array_equal(part.test, split.test)
            counts, whole = (np.bincount(samples.labels[train]) for train in (part.train, split.train))
            assert counts == pytest.approx(share * whole, abs=2)
            left = np.setdiff1d(split.train, part.train)
            assert group is None or not set(samples.subjects[left]) & set(samples.subjects[part.train])


def test_samples_differ_between_folds_and_repeats_but_not_between_calls(study: ic.BrainGraphs) -> None:
    samples = Samples(study)
    split = Protocol().splits(samples, 0)[0]
    taken = [take_share(samples, split, 0.5, *where).train.tolist() for where in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert taken[0] == taken[1] and len({tuple(part) for part in taken}) == 3


def test_records_of_shares_train_on_the_sample_and_test_the_whole_fold(results: ic.Results) -> None:
    records = list(Store(results.folders[0]).records())
    sizes: dict[float, set[tuple[int, int]]] = {}
    for record in records:
        sizes.setdefault(record["job"].get("share", 1.0), set()).add((record["n_train"], len(record["test"])))
    assert sizes == {0.2: {(8, 20)}, 0.5: {(20, 20)}, 0.8: {(32, 20)}, 1.0: {(40, 20)}}
    assert len(records) == 3 * (2 + len(SHARES)), "no curve of the constant predictor"


def test_the_curve_has_a_point_per_share_and_ends_at_the_score_of_the_table(results: ic.Results) -> None:
    by_method = {row.method: row for row in results.summary.rows}
    curve = by_method["linear"].curve
    assert [(point.share, point.n_train) for point in curve] == [(0.2, 8), (0.5, 20), (0.8, 32), (1.0, 40)]
    assert curve[-1].area == by_method["linear"].metrics["roc_auc"]
    assert by_method["constant"].curve == ()
    assert len(by_method["linear"].scores) == 3
    reread = ic.open_results(results.folders[0]).summary.rows
    assert {row.method: row.curve for row in reread} == {label: row.curve for label, row in by_method.items()}
    stored = json.loads((results.folders[0] / "results.json").read_text())["methods"][0]["learning_curve"]
    assert [point["share"] for point in stored] == [*SHARES, 1.0]


def test_scores_without_a_curve_are_the_same(study: ic.BrainGraphs, results: ic.Results, tmp_path: Path) -> None:
    options = {"repeats": 1, "candidates": 1, "explain": False, "progress": False, "jobs": 0, "out": tmp_path / "out"}
    plain = ic.benchmark(study, ["linear", "constant"], **options)
    assert plain.predictions.equals(results.predictions)
    assert [row.keys for row in plain.summary.rows] == [row.keys for row in results.summary.rows]
    assert all(row.curve == () for row in plain.summary.rows)


def test_the_report_shows_the_curve(results: ic.Results, tmp_path: Path) -> None:
    content = make_content(results)
    lines = {line.get_gid(): line for line in FIGURES["learning_curve"](content).axes[0].lines}
    curve = next(row for row in results.summary.rows if row.method == "linear").curve
    assert list(lines["curve-linear"].get_xdata()) == [8, 20, 32, 40]
    assert list(lines["curve-linear"].get_ydata()) == pytest.approx([point.area.mean for point in curve])
    assert [row[2].text for row in learning_curve_table(content).rows] == ["8", "20", "32", "40"]
    page = results.report(tmp_path / "page.html").read_text()
    assert 'id="learning-curve"' in page and 'id="figure-learning-curve"' in page


def test_a_job_of_all_subjects_has_the_key_it_always_had() -> None:
    job = Job("d", "m", 1, {}, {}, {}, (), False, 0, 0)
    assert "share" not in job.to_json() and Job(**job.to_json()) == job
    assert Job("d", "m", 1, {}, {}, {}, (), False, 0, 0, share=0.5).key != job.key


@pytest.mark.parametrize("wrong", [1.5, [None], [[0.5]], {"share": 0.5}])
def test_what_is_no_share_is_refused(wrong: object) -> None:
    with pytest.raises(ic.InputError, match="learning_curve"):
        read_shares(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["half", "0.5,1.5", [0], [1.0], "-0.2"])
def test_other_shares_are_refused(wrong: object, tmp_path: Path) -> None:
    with pytest.raises(ic.InputError, match="learning_curve"):
        read_shares(wrong)  # type: ignore[arg-type]
    text = wrong if isinstance(wrong, str) else ",".join(map(str, wrong))  # type: ignore[call-overload]
    result = CliRunner().invoke(main, ["benchmark", "--learning-curve", text, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2 and "--learning-curve" in result.output


def test_shares_are_read_from_text_or_numbers() -> None:
    assert read_shares("0.5, 0.25") == read_shares([0.25, 0.5, 0.5]) == (0.25, 0.5)
    assert read_shares("") == read_shares(()) == ()
    assert read_shares(0.5) == read_shares(np.array([0.5])) == (0.5,)


def test_shares_change_nothing_but_the_curve(study: ic.BrainGraphs, results: ic.Results, tmp_path: Path) -> None:
    options = {"repeats": 1, "candidates": 1, "explain": False, "progress": False, "jobs": 0, "out": tmp_path}
    plain = ic.benchmark(study, ["linear", "constant"], **options)
    assert results.summary.test_over_train == plain.summary.test_over_train


def test_a_share_that_failed_is_no_failure_of_the_method(results: ic.Results) -> None:
    records = list(results.records.values())
    failed = {"job": {**records[0]["job"], "share": 0.2}, "reason": "ValueError: too few graphs"}
    table = tabulate(records, [failed])
    assert all(row.failed == 0 for row in table.rows)
    [sentence] = ic.Results(table, {}).left_out
    assert records[0]["job"]["method"] in sentence and "20%" in sentence and "too few graphs" in sentence
