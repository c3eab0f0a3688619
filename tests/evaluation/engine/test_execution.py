"""A plan is carried out with each record read once, and the time left is estimated from finished jobs."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmark_toys import Logistic, Prior, Raises, toy_method, toy_record, toy_source

from isocapsnet import _timing
from isocapsnet.evaluation import Execution, InProcessExecutor, Plan, Protocol, Store
from isocapsnet.evaluation import store as store_module


def _plan(**changes: Any) -> Plan:
    methods = (toy_method("linear", Logistic), toy_method("constant", Prior))
    return replace(Plan(toy_source(effect=3.0), methods, repeats=2, permutations=2, audits=1), **changes)


def test_each_record_is_read_once_and_the_folds_are_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Execution(_plan(repeats=1), tmp_path)
    first.run(InProcessExecutor())
    reads: Counter[Path] = Counter()
    read = store_module.read_json

    def count(path: Path) -> Any:
        reads[path] += path.exists()
        return read(path)

    monkeypatch.setattr(store_module, "read_json", count)
    plan = _plan()
    execution = Execution(plan, tmp_path)
    assert (execution.n_done, len(execution.waiting)) == (24, 24)
    execution.run(InProcessExecutor())
    table = execution.table()
    assert [row.jobs for row in table.rows] == [24, 24]
    assert sum(reads.values()) == len(first.tasks) and set(reads.values()) <= {0, 1}
    assert plan.detectable is plan.detectable
    assert plan.protocol.splits(plan.source.load(), 0) is plan.folds


def test_the_table_has_the_order_of_the_plan_and_is_that_of_the_stored_records(tmp_path: Path) -> None:
    plan = _plan(methods=(toy_method("bad", Raises), toy_method("constant", Prior), toy_method("linear", Logistic)))
    execution = Execution(plan, tmp_path)
    execution.run(InProcessExecutor())
    assert [row.method for row in execution.table().rows] == ["constant", "linear", "bad"]
    again = Execution(plan, tmp_path, retry_failed=False)
    assert again.waiting == [] and again.n_failed == len(plan.tasks(tmp_path)) // 3
    assert repr(again.table()) == repr(execution.table())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"jobs": 0}, "about 60 s left"),
        ({"jobs": 2}, "about 30 s left"),
        ({"cluster": "local:4"}, "about 15 s left"),
        ({"scheduler": "tcp://x:1"}, "about 60 s of computing, shared by the workers"),
    ],
)
def test_the_time_left_is_that_of_the_slots_and_of_the_same_parameters(
    options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    slow, fast = (toy_method("linear", Logistic, parameters={"C": C}) for C in (1.0, 2.0))
    plan = Plan(toy_source(), (slow, fast), Protocol(n_folds=2), repeats=4)
    for task in plan.tasks(tmp_path):
        if task.job.parameters["C"] == 2.0 or task.job.repeat == 0:
            seconds = {"tune": 0.0, "fit": 10.0 / task.job.parameters["C"], "predict": 0.0}
            Store(tmp_path).save(task.job, toy_record(task.job) | {"seconds": seconds})
    execution = Execution(plan, tmp_path)
    assert execution.estimate_seconds() == (60.0, 0)
    nothing = dict.fromkeys(_timing.Options.__dataclass_fields__)
    described = _timing.describe_jobs(execution, _timing.Options(**{**nothing, **options}))
    assert described == f"16 jobs: 10 done, 0 failed before, 6 to run, {text}"


def test_jobs_of_methods_without_finished_ones_are_counted(tmp_path: Path) -> None:
    execution = Execution(_plan(), tmp_path)
    assert execution.estimate_seconds() == (0.0, len(execution.tasks))
