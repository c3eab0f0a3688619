"""The simulated cluster of benchmarks/scaling.py: the real runner on workers whose time is computed by hand."""

from pathlib import Path
from types import ModuleType

import pytest

_BENCHMARKS = str(Path(__file__).parents[3] / "benchmarks")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(_BENCHMARKS)
    import simulated_cluster

    return simulated_cluster


@pytest.mark.parametrize(("n_workers", "hours"), [(15, 2.0), (8, 4.0), (4, 8.0), (100, 2.0)])
def test_equal_jobs_take_as_many_rounds_as_workers_need(
    cluster: ModuleType, monkeypatch: pytest.MonkeyPatch, n_workers: int, hours: float
) -> None:
    for name, value in {"DEATHS": 1e-12, "FAILING": 0.0, "SPREAD": 0.0}.items():
        monkeypatch.setattr(cluster, name, value)
    result = cluster.simulate({"one": 2.0}, n_workers, 0)  # 15 folds
    assert (result["jobs"], result["runs"], result["unfinished"]) == (15, 1, 0)
    assert result["hours"] == pytest.approx(hours)
    assert result["busy"] == pytest.approx(30)
    assert (result["deaths"], result["failed"], result["lost"]) == (0, 0, 0)


def test_every_job_has_a_record_in_the_end_and_kept_scores_save_work(cluster: ModuleType) -> None:
    kept, not_kept = (cluster.simulate({"short": 5.0, "long": 150.0}, 10, 0, keeps_scores=keeps) for keeps in (1, 0))
    for result in (kept, not_kept):
        assert (result["jobs"], result["unfinished"]) == (30, 0)
        assert result["deaths"] > 0
        assert result["hours"] > result["ideal_hours"]
        assert result["busy"] - result["lost"] >= result["ideal_hours"] * 10 - 1e-6
    assert kept["lost"] / kept["deaths"] < 150 / 15 * 1.5 < not_kept["lost"] / not_kept["deaths"]
