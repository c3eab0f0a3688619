"""Records on disk: whole or absent, found again, merged by copying."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_toys import Prior, toy_method, toy_record, toy_source

from isocapsnet.evaluation import Job, Plan, Store
from isocapsnet.evaluation import store as store_module


def _job(permutation: int = 0, fold: int = 0) -> Job:
    plan = Plan(toy_source(), (toy_method("prior", Prior),), repeats=1)
    return replace(plan.tasks(Path())[0].job, permutation=permutation, fold=fold)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_record_comes_back_exactly_from_the_path_of_its_key(tmp_path: Path) -> None:
    store, job = Store(tmp_path), _job()
    assert store.load(job) is None
    store.save(job, toy_record(job, 0.1 + 0.2))
    assert _files(tmp_path) == [tmp_path / "records" / job.key[:2] / f"{job.key}.json"]
    loaded = Store(tmp_path).load(job)
    assert loaded is not None
    assert loaded == json.loads(json.dumps(toy_record(job, 0.1 + 0.2)))
    (tmp_path / "records" / "ff").mkdir()
    for number, damage in enumerate(("", "[]", "{}", '{"key": "x"}')):
        (tmp_path / "records" / "ff" / str(number)).write_text(damage)
    assert list(Store(tmp_path).records()) == [loaded]


@pytest.mark.parametrize("damage", ["", '{"key": "', "[]", '{"key": "of another job"}'])
def test_a_damaged_record_counts_as_not_there(tmp_path: Path, damage: str) -> None:
    store, job = Store(tmp_path), _job()
    store.save(job, toy_record(job))
    (tmp_path / "records" / job.key[:2] / f"{job.key}.json").write_text(damage)
    assert store.load(job) is None
    store.save(job, toy_record(job))
    assert store.load(job) is not None


def test_a_write_that_fails_half_way_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, job = Store(tmp_path), _job()
    store.save(job, toy_record(job, 0.25))

    def die(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", die)
    with pytest.raises(KeyboardInterrupt):
        store.save(job, toy_record(job, 0.75))
    loaded = store.load(job)
    assert loaded is not None
    assert loaded["probabilities"][0][0] == 0.25


def test_an_error_stands_until_the_job_succeeds(tmp_path: Path) -> None:
    store, job = Store(tmp_path), _job()
    store.save_error(job, {"reason": "Timeout: over 5 s", "traceback": ""})
    assert store.load(job) is None
    found = store.load_error(job)
    assert found is not None
    assert found["reason"] == "Timeout: over 5 s"
    assert [error["key"] for error in store.errors()] == [job.key]
    store.save(job, toy_record(job))
    assert store.load_error(job) is None


def test_a_hundred_permutations_share_a_file_and_each_is_found_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    jobs = [_job(permutation) for permutation in range(1, 251)]
    for job in jobs:
        store.save(job, toy_record(job, job.permutation / 1000))
    assert len(_files(tmp_path / "records")) == 2 + 50
    fresh = Store(tmp_path)
    for job in jobs:
        loaded = fresh.load(job)
        assert loaded is not None
        assert loaded["probabilities"][0][0] == job.permutation / 1000
    assert fresh.load(_job(251)) is None
    assert fresh.load(_job(1, fold=1)) is None
    assert len(list(fresh.records())) == 250


def test_an_interrupted_batch_goes_on_where_it_stopped(tmp_path: Path) -> None:
    jobs = [_job(permutation) for permutation in range(1, 101)]
    for job in jobs[:60]:
        Store(tmp_path).save(job, toy_record(job))
    store = Store(tmp_path)
    missing = [job for job in jobs if store.load(job) is None]
    assert missing == jobs[60:]
    for job in missing:
        store.save(job, toy_record(job))
    assert len(_files(tmp_path / "records")) == 1


def test_a_crash_between_writing_a_batch_and_removing_its_parts_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    jobs = [_job(permutation) for permutation in range(1, 101)]
    for job in jobs[:99]:
        store.save(job, toy_record(job))
    with monkeypatch.context() as patched:
        patched.setattr(store_module.Store, "_remove", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.save(jobs[99], toy_record(jobs[99]))
    fresh = Store(tmp_path)
    assert all(fresh.load(job) is not None for job in jobs)
    assert sorted(record["key"] for record in fresh.records()) == sorted(job.key for job in jobs)


def test_a_batch_that_another_run_wrote_meanwhile_is_found(tmp_path: Path) -> None:
    ours, theirs = Store(tmp_path), Store(tmp_path)
    jobs = [_job(permutation) for permutation in range(1, 101)]
    assert ours.load(jobs[0]) is None
    for job in jobs:
        theirs.save(job, toy_record(job))
    found = ours.load(jobs[0])
    assert found is not None
    assert found["key"] == jobs[0].key


def test_merging_two_machines_results_is_copying_files(tmp_path: Path) -> None:
    jobs = [_job(permutation) for permutation in range(1, 141)] + [_job(fold=1)]
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    for number, job in enumerate(jobs):
        (here if number % 2 else there).save(job, toy_record(job))
    shutil.copytree(tmp_path / "there", tmp_path / "here", dirs_exist_ok=True)
    merged = Store(tmp_path / "here")
    assert all(merged.load(job) is not None for job in jobs)


def test_records_are_readable_json_without_pickle(tmp_path: Path) -> None:
    job = _job()
    Store(tmp_path).save(job, toy_record(job))
    [path] = _files(tmp_path / "records")
    assert json.loads(path.read_bytes())["job"]["method"] == "prior"
    assert list((tmp_path / "partial").iterdir()) == []
