"""What a search could not try: a missing package is refused, and all else is counted and said."""

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression

import isocapsnet as ic
from isocapsnet._files import DamagedError
from isocapsnet._methods import list_methods, list_transforms
from isocapsnet._packages import MissingPackageError, check_packages, importing
from isocapsnet._reporting import read_content
from isocapsnet.cli import main
from isocapsnet.evaluation.engine.child import attempt
from isocapsnet.evaluation.estimation import _leave_out
from isocapsnet.evaluation.jobs import run_job
from isocapsnet.evaluation.plan import MethodSpec, Plan, keep_suitable
from isocapsnet.evaluation.protocol import Protocol
from isocapsnet.evaluation.records import check_record, seal
from isocapsnet.evaluation.samples import DataSource, Samples

SMALL: dict[str, Any] = {"repeats": 1, "jobs": 0, "explain": False, "progress": False}
LINEAR = MethodSpec("linear", "isocapsnet.models.baselines:LinearClassifier")


def make_correlations(n_graphs: int = 30, n_nodes: int = 6, seed: int = 0) -> ic.BrainGraphs:
    rng = np.random.default_rng(seed)
    graphs = np.stack([np.corrcoef(rng.normal(size=(n_nodes, 40))) for _ in range(n_graphs)])
    return ic.BrainGraphs(graphs, np.arange(n_graphs) % 2, sites=["a", "b", "c"] * (n_graphs // 3), name="small")


def make_series() -> ic.BrainGraphs:
    rng = np.random.default_rng(0)
    return ic.BrainGraphs(time_series=[rng.normal(size=(30, 5)) for _ in range(24)], labels=np.arange(24) % 2)


def make_plan(data: ic.BrainGraphs, names: str) -> Plan:
    samples = Samples(data, None, False)
    source = DataSource("", samples.digest)
    source.keep(samples)
    return Plan(source, (LINEAR,), Protocol(), repeats=1, transforms=list_transforms(names))


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hides a package, and the parts of it that were imported before."""

    def hide(package: str) -> None:
        for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


# -- packages -----------------------------------------------------------------------------------------------------


def test_a_missing_package_is_an_error_of_its_own() -> None:
    with pytest.raises(MissingPackageError, match=r"Toys need bricks.*isocapsnet\[toys\]") as caught:  # noqa: SIM117
        with importing("Toys need bricks", "toys"):
            import bricks_of_no_package  # noqa: F401
    assert isinstance(caught.value, ic.InputError) and isinstance(caught.value, ImportError)
    check_packages("numpy", {"numpy": "toys"})
    with pytest.raises(MissingPackageError, match="bricks_of_no_package"):
        check_packages("toy", {"numpy": "toys", "bricks_of_no_package": "toys"})


@pytest.mark.parametrize(
    ("package", "options"),
    [
        ("nilearn", {"choose_transform": "fisher-z,tangent"}),
        ("nilearn", {"transform": "tangent"}),
        ("combatlearn", {"harmonize": True}),
        ("pyriemann", {"methods": ["riemann"]}),
        ("pyriemann", {"methods": ["linear", ic.MODELS["riemann"]()]}),
        ("torch_geometric", {"methods": "gcn[n_layers=1],linear"}),
        ("distributed", {"cluster": "local:1", "jobs": None}),
    ],
)
def test_what_needs_a_missing_package_is_refused_before_the_run(
    package: str, options: dict[str, Any], without: Any, tmp_path: Path
) -> None:
    without(package)
    with pytest.raises(MissingPackageError, match=package):
        ic.benchmark(make_correlations(), **{"methods": "linear", **SMALL, **options}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_time_series_and_fits_are_refused_as_well(without: Any, tmp_path: Path) -> None:
    without("nilearn")
    without("pyriemann")
    with pytest.raises(MissingPackageError, match="nilearn"):
        ic.benchmark(make_series(), "linear", out=tmp_path / "out", **SMALL)
    for options in ({"transform": "tangent"}, {"method": "riemann"}):
        with pytest.raises(MissingPackageError):
            ic.fit(make_correlations(), **{"method": "linear", **options})


def test_an_explanation_is_refused_before_the_model_is_opened(without: Any) -> None:
    without("captum")
    with pytest.raises(MissingPackageError, match="captum"):
        ic.explain("no model", "no data", attribution="integrated")


def test_all_methods_without_those_that_lack_a_package(without: Any) -> None:
    without("pyriemann")
    methods = list_methods(["riemann", "constant"])
    with pytest.warns(UserWarning, match="riemann needs pyriemann"):
        assert [method.name for method in keep_suitable(methods, 2, named=False)] == ["constant"]
    # The workers of a cluster may have the package.
    assert keep_suitable(methods, 2, named=True, runs_here=False) == methods


def test_a_worker_without_a_package_fails_the_job(without: Any, tmp_path: Path) -> None:
    """The search does not go on without the transform, as it does for graphs that a transform cannot take."""
    [task, *_] = make_plan(make_correlations(), "fisher-z,tangent").tasks(tmp_path)
    task = replace(task, inner_scores=None)
    assert run_job(task)["key"] == task.job.key
    without("nilearn")
    with pytest.raises(MissingPackageError, match="nilearn"):
        run_job(task)
    assert "MissingPackageError" in attempt(task.to_json())["error"]["reason"]


# -- candidates ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[ic.Results, Path]:
    """Scaled graphs are no correlations, which is not known before the first fold."""
    out = tmp_path_factory.mktemp("run") / "out"
    options = {**SMALL, "repeats": 2, "transform": "scale", "choose_transform": "fisher-z"}
    return ic.benchmark(make_correlations(), ["linear", "svm", "constant"], out=out, **options), out


def test_what_a_search_leaves_out_is_counted_and_said_everywhere(run: tuple[ic.Results, Path]) -> None:
    results, out = run
    [sentence] = results.left_out
    assert "transform=fisher-z" in sentence and "12 of 12 folds" in sentence and "needs correlations" in sentence
    assert "linear" in sentence and "svm" in sentence and "constant" not in sentence
    assert sentence in results.remarks and "fisher-z in 12 of 12" in results._repr_html_()
    assert ic.open_results(out).left_out == [sentence] and sentence in read_content(out).notes
    methods = {row["method"]: row["left_out"] for row in json.loads((out / "results.json").read_text())["methods"]}
    assert methods["linear"]["transform=fisher-z"]["folds"] == 6 and methods["constant"] == {}
    shown = CliRunner().invoke(main, ["compare", str(out)], env={"COLUMNS": "300"}).output
    assert sentence in " ".join(shown.split())


def test_a_run_that_is_continued_says_it_too(run: tuple[ic.Results, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    results, out = run
    monkeypatch.setattr("isocapsnet.evaluation.engine.child.run_job", None)  # no job runs again
    options = {**SMALL, "repeats": 2, "transform": "scale", "choose_transform": "fisher-z"}
    again = ic.benchmark(make_correlations(), ["linear", "svm", "constant"], out=out, **options)
    assert again.left_out == results.left_out and all(row.failed == 0 for row in again.summary.rows)


def test_records_of_searches_that_tried_everything_are_as_before(run: tuple[ic.Results, Path]) -> None:
    results, _ = run
    for row in results.summary.rows:
        for record in (results.records[key] for key in row.keys.values()):
            assert ("left_out" in record) == (row.method != "constant")
            former = {name: value for name, value in record.items() if name != "left_out"}
            assert check_record(seal(former)) == former and check_record(seal(record)) == record
            for wrong in (["transform"], {"transform": 3}, {"transform": "x" * 200_000}):
                with pytest.raises(DamagedError):
                    check_record(seal({**former, "left_out": wrong}))


def test_a_search_without_inner_folds_says_so(tmp_path: Path) -> None:
    data = make_correlations(6)
    results = ic.benchmark(data, "svm", folds=3, out=tmp_path, **{**SMALL, "repeats": 1})
    assert all("left_out" not in record for record in results.records.values()) and results.left_out == []
    few = data[[0, 1, 2, 3]]
    results = ic.benchmark(few, "svm", folds=2, out=tmp_path / "few", **SMALL)
    [sentence] = results.left_out
    assert "any other setting" in sentence and "2 of 2 folds" in sentence and "inner folds" in sentence


def test_many_long_reasons_do_not_fail_a_job() -> None:
    """A record has room for some of them, in a line each."""
    left_out: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(300):
            _leave_out(f"size={number}", "a sentence\nof two lines, " + "x" * 2_000, left_out)
    assert len(left_out) <= 51 and sum(map(len, [*left_out, *left_out.values()])) < 100_000
    assert all("\n" not in reason for reason in left_out.values()) and "size=0" in left_out


def test_an_attribute_of_the_name_packages_may_be_anything_in_an_estimator_of_a_user() -> None:
    for packages in (property(lambda self: {}), ("numpy",), None):
        kind = type("Own", (LogisticRegression,), {"packages": packages})
        [method] = list_methods([("own", kind())])
        assert method.packages == {}
