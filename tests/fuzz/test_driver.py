"""The driver notices all that a reader must not do, and a case is the same each time it is made."""

import json
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name

import psutil
import pytest

from tests.fuzz.cases import make_case, write_case
from tests.fuzz.damage.records import seal_anew
from tests.fuzz.damage.safetensors import read_model, write_model
from tests.fuzz.driver import Worker, fuzz, workplace
from tests.fuzz.formats import FORMATS, case, seeds_of
from tests.fuzz.misbehaving import CONDUCTS


@pytest.mark.parametrize(("conduct", "outcome"), CONDUCTS.items())
def test_every_conduct_is_counted_as_what_it_is(impatient_worker: Worker, conduct: str, outcome: str) -> None:
    name = f"tests.fuzz.misbehaving:formats.{conduct}"
    # Only damage that leaves checksums alone must be noticed, so only it can be read wrongly.
    number = next(number for number in range(20) if case(name, number).must_match)
    tally = fuzz(name, [number], [impatient_worker])
    assert tally.outcomes == {outcome: 1}, dict(tally.examples)


def test_a_worker_that_was_ended_leaves_no_process(impatient_worker: Worker) -> None:
    fuzz("tests.fuzz.misbehaving:formats.hangs", [0], [impatient_worker])
    living = [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    assert not [p for p in living if str(impatient_worker.area) in p.cmdline()]


def test_a_seed_that_is_not_read_before_it_is_damaged_is_a_fault_of_the_suite(impatient_worker: Worker) -> None:
    with pytest.raises(RuntimeError, match="before it is damaged"):
        impatient_worker.ask(format="tests.fuzz.misbehaving:make_unreadable", number=0)


def test_a_fault_of_the_suite_is_not_counted_as_one_of_a_reader(impatient_worker: Worker) -> None:
    with pytest.raises(RuntimeError, match="no_such_way"):
        impatient_worker.ask(folder=str(impatient_worker.area / "cwd"), source="", way="os:no_such_way", options={})


def test_a_process_that_outlives_its_worker_is_named() -> None:
    with workplace() as place, Worker(place) as worker:
        fuzz("tests.fuzz.misbehaving:formats.leaves_a_process", [0], [worker])
        assert worker.close() == ["sleep 600"]


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("models", "records")])
def test_a_case_depends_on_its_format_and_number_alone(name: str) -> None:
    first, second = (resolve_name(FORMATS[name])() for _ in range(2))
    assert [make_case(name, n, first) for n in range(30)] == [make_case(name, n, second) for n in range(30)]


def _change_model(content: bytes) -> bytes:
    known, arrays = read_model(content)
    return write_model(json.dumps(known), {name: array + 1 for name, array in arrays.items()})


def _change_record(content: bytes) -> bytes:
    return json.dumps(seal_anew({**json.loads(content), "split": "another name"})).encode()


@pytest.mark.parametrize(
    ("name", "which", "change"), [("models", "x.isocaps", _change_model), ("records", "records/", _change_record)]
)
def test_what_the_suite_seals_passes_for_sealed(
    worker: Worker, tmp_path: Path, name: str, which: str, change: Callable[[bytes], bytes]
) -> None:
    """Or the damage that is sealed anew would never get past the checksum."""
    worker.ask(format=name, number=0)  # makes the seeds
    seed = seeds_of(name)[1]
    path = next(path for path in seed.files if path.startswith(which))
    values = []
    for files in (seed.files, {**seed.files, path: change(seed.files[path])}):
        write_case(files, tmp_path / "given")
        answer = worker.ask(folder=str(tmp_path / "given"), source=seed.source, way=seed.ways[0], options={})
        assert answer["outcome"] == "read"
        values.append(answer["value"].splitlines())
    assert len(values[0]) == len(values[1]) and values[0] != values[1]


def test_one_damage_of_several_is_the_same_alone(tmp_path) -> None:
    several = next(made for number in range(100) if (made := case("npy", number)).n_damages > 1)
    number = next(number for number in range(100) if case("npy", number) == several)
    alone = [case("npy", number, only) for only in range(several.n_damages)]
    changed = [
        {name: content for name, content in made.files.items() if several.seed.files.get(name) != content}
        for made in alone
    ]
    together: dict = {}
    for part in changed:
        together |= part
    assert together == {
        name: content for name, content in several.files.items() if several.seed.files.get(name) != content
    }
    write_case(several.files, tmp_path / "given")
    assert {path.name for path in (tmp_path / "given").iterdir()} == set(several.files)
