"""Long runs under bad conditions: killed a hundred times, on a full disk, twice at once, for thousands of jobs."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
from benchmark_toys import Prior, toy_method, toy_source
from click.testing import CliRunner

from isocapsnet.cli import main
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.synthetic import make_planted_graphs
from isocapsnet.evaluation import Outcome, Plan, Protocol, Store, local_executor, run, tabulate

pytestmark = pytest.mark.slow

_SCRIPT = """
import sys
from pathlib import Path
from benchmark_toys import Logistic, Prior, toy_method, toy_source
from isocapsnet.evaluation import Plan, Protocol, Store, local_executor, run
folder = Path(sys.argv[1])
methods = (toy_method("linear", Logistic, parameters={"sleep": 0.01}), toy_method("constant", Prior))
plan = Plan(toy_source(effect=3.0), methods, Protocol(n_folds=2), repeats=1, permutations=150)
with local_executor(2) as executor:
    run(plan.tasks(folder), Store(folder), executor, on_outcome=lambda o: print(o.job.key, o.error, flush=True))
"""
_JOBS = 2 * 2 * 151


def _start(folder: Path) -> "subprocess.Popen[str]":
    paths = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-c", _SCRIPT, str(folder)]
    env = {**os.environ, "PYTHONPATH": paths}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def _contents(folder: Path) -> dict[str, Any]:
    """All records without what may differ between two runs."""
    return {r["key"]: {**r, "seconds": None, "peak_memory": None} for r in Store(folder).records()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    process = _start(folder)
    process.communicate()
    assert process.returncode == 0
    assert len(_contents(folder)) == _JOBS
    return folder


# -- a hundred kills ----------------------------------------------------------------------------------------------


@dataclass
class _Kills:
    """What a hundred kills did."""

    told: set[str] = field(default_factory=set)
    table: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    lost: int = 0
    orphans: int = 0
    repeated: int = 0


def _send(who: str, name: str, process: "subprocess.Popen[str]", rng: np.random.Generator) -> list[psutil.Process]:
    """Send a signal to the parent, to one of its children, or to all; the processes that there were."""
    number = signal.Signals[name]
    children: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
    chosen = list(rng.permutation(len(children))[: len(children) if who == "both" else 1])
    if who != "parent":
        for index in chosen:
            with suppress(psutil.NoSuchProcess):
                children[index].send_signal(number)
    if who != "child":
        process.send_signal(number)
    return children


def _disturb(folder: Path, kills: _Kills, rng: np.random.Generator) -> bool:
    """Start a run and send it one signal at a random moment; whether the run came to its end all the same."""
    before = set(_contents(folder))
    process = _start(folder)
    assert process.stdout is not None
    who, name = rng.choice(["parent", "child", "both"]), rng.choice(["SIGKILL", "SIGTERM", "SIGINT"])
    told = []
    for _ in range(int(rng.choice([0, 1, 5, 20, 60]))):
        told.append(process.stdout.readline().split(maxsplit=1))
    if not told:  # while it starts
        time.sleep(rng.uniform(0, 4))
    ended = process.poll() is not None
    children = _send(who, name, process, rng)
    told += [line.split(maxsplit=1) for line in process.stdout]
    process.communicate()
    finished = {key for key, error in filter(None, told) if error.strip() == "None"}
    on_disk = set(_contents(folder))
    kills.lost += len(finished - on_disk) + len(before - on_disk)
    kills.repeated += len(finished & before)
    _, alive = psutil.wait_procs(children, timeout=10)
    kills.orphans += len(alive)
    state = "too late" if ended else "ended" if process.returncode == 0 else f"stopped, code {process.returncode}"
    kills.table[who, name, state] += 1
    return process.returncode == 0


def test_a_hundred_kills_lose_nothing_and_change_no_number(whole: Path, tmp_path: Path) -> None:
    rng, kills = np.random.default_rng(0), _Kills()
    folders: list[Path] = [tmp_path / "0"]
    while sum(kills.table.values()) < 100:
        if _disturb(folders[-1], kills, rng):
            folders.append(tmp_path / str(len(folders)))
    expected, wrong, missing = _contents(whole), 0, 0
    for folder in folders:
        process = _start(folder)
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        found = _contents(folder)
        wrong += sum(found[key] != expected[key] for key in found)
        missing += len(expected.keys() - found.keys())
        assert not (folder / "rejected").exists()
        tables = [tabulate(Store(each).records()).rows for each in (whole, folder)]
        assert [row.verdict for row in tables[0]] == [row.verdict for row in tables[1]]
        assert [row.metrics for row in tables[0]] == [row.metrics for row in tables[1]]
    print(
        "\n" + "\n".join(f"{n:>3}  {who:<7} {name:<8} {state}" for (who, name, state), n in sorted(kills.table.items()))
    )
    print(
        f"{len(folders)} runs, {sum(kills.table.values())} kills: lost {kills.lost + missing}, wrong {wrong}, ", end=""
    )
    print(f"computed twice {kills.repeated}, orphans {kills.orphans}")
    assert (kills.lost, missing, wrong, kills.repeated, kills.orphans) == (0, 0, 0, 0, 0)


# -- two at once --------------------------------------------------------------------------------------------------


def test_two_runs_at_once_in_one_folder_lose_nothing_and_change_no_number(whole: Path, tmp_path: Path) -> None:
    expected = _contents(whole)
    for number in range(3):
        folder = tmp_path / str(number)
        both = [_start(folder), _start(folder)]
        answers = [process.communicate() for process in both]
        assert [process.returncode for process in both] == [0, 0], answers
        found = _contents(folder)
        wrong = sum(found[key] != expected[key] for key in found)
        files = len(list(folder.glob("records/??/*")))
        failed = sum(not line.endswith(" None") for out, _ in answers for line in out.splitlines())
        print(f"two at once: {len(found)} records in {files} files, lost {len(expected) - len(found)}, wrong {wrong}")
        assert found == expected
        assert failed == 0
        assert not (folder / "rejected").exists()


# -- a full disk --------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a disk of a given size can be mounted by root alone")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_on_a_full_disk_a_run_stops_with_the_name_of_a_file_and_goes_on_when_there_is_room(
    small_disk: Path, tmp_path: Path
) -> None:
    """The disk grows a little after each stop, so that different files are the first without room."""
    planted = make_planted_graphs(40, 12, signal_to_noise=2.0, random_state=0)
    study = tmp_path / "study.npz"
    BrainGraphs(planted.graphs, planted.labels, name="study").save(study)
    options = ["--methods", "linear,constant,isocapsnet[max_epochs=2]", "--candidates", "1", "--repeats", "2"]
    command = ["benchmark", str(study), *options, "--no-save-models", "--jobs", "1", "--out"]
    assert CliRunner().invoke(main, [*command, str(tmp_path / "roomy")]).exit_code == 0
    outcomes: list[tuple[int, str, int]] = []
    for size in [16, 40, 56, 72, 96, *range(128, 480, 32), 64_000]:
        subprocess.run(["mount", "-o", f"remount,size={size}k", str(small_disk)], check=True)
        result = CliRunner().invoke(main, [*command, str(small_disk / "out")])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        if result.exit_code == 0:
            break
        [line] = [line for line in result.output.splitlines() if line.startswith("Error:")]
        assert result.exit_code == 2, result.output
        assert "No space left on device" in line
        where = Path(line.split()[1]).relative_to(small_disk / "out")
        outcomes.append((size, where.parts[0], len(list(Store(small_disk / "out").records()))))
    print("\n" + "\n".join(f"{size:>6} kB: stopped at {where}, {n} records" for size, where, n in outcomes))
    assert result.exit_code == 0
    assert {"data", "records", "artifacts"} <= {where for _, where, _ in outcomes}
    counts = [n for _, _, n in outcomes]
    assert counts == sorted(counts)
    roomy, small = ({r["key"] for r in Store(out).records()} for out in (tmp_path / "roomy", small_disk / "out"))
    frames = [pd.read_csv(out / "results.csv") for out in (tmp_path / "roomy", small_disk / "out")]
    wrong = not frames[0].drop(columns="seconds").equals(frames[1].drop(columns="seconds"))
    print(f"{len(outcomes)} stops: lost {len(roomy - small)}, wrong {int(wrong)}")
    assert roomy == small
    assert not wrong


# -- two thousand jobs --------------------------------------------------------------------------------------------


def test_memory_and_open_files_are_flat_over_two_thousand_jobs(tmp_path: Path) -> None:
    plan = Plan(toy_source(), (toy_method("constant", Prior),), Protocol(n_folds=2), repeats=1000)
    this, samples, done = psutil.Process(), [], 0

    def look(outcome: Outcome) -> None:
        nonlocal done
        assert outcome.error is None
        done += 1
        if done % 100 == 0:
            children = sorted(this.children(), key=lambda child: child.pid)
            processes = [this, *children]
            samples.append([(p.memory_info().rss / 1e6, p.num_fds(), p.num_threads()) for p in processes])

    with local_executor(2) as executor:
        run(plan.tasks(tmp_path), Store(tmp_path), executor, on_outcome=look)
    found = np.array(samples)  # (20, 3 processes, 3 measures)
    for jobs, row in zip(range(100, 2001, 100), found, strict=True):
        print(jobs, "jobs:", "; ".join(f"{rss:.1f} MB, {fds:.0f} files, {n:.0f} threads" for rss, fds, n in row))
    after = found[1:]
    growth = (after[:, :, 0].max(axis=0) - after[0, :, 0]).round(1)
    print("growth after 200 jobs (MB), runner and workers:", growth.tolist())
    assert (growth < 2).all()
    assert (np.ptp(after[:, :, 1], axis=0) <= 1).all()
    assert (np.ptp(after[:, :, 2], axis=0) <= 1).all()
