"""Starts workers, hands them cases, watches them, counts."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from unittest import mock

import psutil

from tests.fuzz.worker import OUTSIDE, empty

ROOT = Path(__file__).resolve().parents[2]
GOOD = ("read", "refused")
BAD = ("traceback", "signal", "hang", "memory", "left", "wrong", "unclear")
_GLANCE_SECONDS = 0.1
_PREPARE_SECONDS = 600


@dataclass(frozen=True)
class Limits:
    """What one case may take: seconds, and bytes of memory of any one process."""

    seconds: float = 10.0
    memory: int = 2 << 30


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder for workers, in memory where the system has such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="isocapsnet-fuzz-", dir=memory if memory.is_dir() else None) as folder:
        (Path(folder) / "seeds").mkdir()
        with mock.patch.dict(os.environ, FUZZ_SEEDS=f"{folder}/seeds"):
            yield Path(folder)


class Worker:
    """A process that reads cases, and another in its place when it dies or must be ended."""

    def __init__(self, place: Path, limits: Limits = Limits()) -> None:  # noqa: B008
        self.area = Path(tempfile.mkdtemp(dir=place))
        self.limits = limits
        self._process: subprocess.Popen[str] | None = None
        self._ready: set[str] = set()
        for name in OUTSIDE:
            (self.area / name).mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def ask(self, **job: Any) -> dict[str, Any]:
        """What came of a case; the limits hold for it alone, not for what its format needs first."""
        name = job.get("format", "")
        if self._process is None:
            self._start()
        if name and name not in self._ready:
            self._send({"prepare": name}, _PREPARE_SECONDS)
            self._ready.add(name)
        answer = self._send(job, self.limits.seconds)
        if answer.get("peak", 0) > self.limits.memory:
            answer |= {"outcome": "memory", "detail": f"{answer['way']}: {answer['peak'] / 1e9:.1f} GB"}
        if answer["outcome"] in ("hang", "memory", "signal"):
            self._end()
        return answer

    def close(self) -> list[str]:
        """End the worker as a script ends; the names of processes that outlive it."""
        if self._process is None:
            return []
        children = psutil.Process(self._process.pid).children(recursive=True)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        _, alive = psutil.wait_procs(children, timeout=2)
        names = [" ".join(process.cmdline())[:200] for process in alive]
        for process in alive:
            process.kill()
        self._end()
        return names

    def _start(self) -> None:
        folders = {name: str(self.area / name) for name in OUTSIDE}
        environment = {
            **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMBA")},
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH"), str(ROOT / "src")])),
            "ISOCAPSNET_CACHE": folders["cache"],
            "TMPDIR": folders["tmp"],
            "HOME": folders["home"],
            "XDG_CACHE_HOME": f"{folders['home']}/.cache",
            "MPLCONFIGDIR": str(self.area.parent / "matplotlib"),
        }
        command = [sys.executable, "-m", "tests.fuzz.worker", str(self.area)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, cwd=folders["cwd"], env=environment, start_new_session=True
        )

    def _send(self, job: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        started, before, delays = time.monotonic(), None, {}
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._died(process)
        while not select.select([process.stdout], [], [], _GLANCE_SECONDS)[0]:
            if self._memory(process) > self.limits.memory:
                return {"outcome": "memory", "detail": self._where(process)}
            delays |= _delays(process)
            before = dict(delays) if before is None else before
            # A busy machine is no hang.
            waited = sum(delay - before.get(pid, 0.0) for pid, delay in delays.items())
            if time.monotonic() - started - waited > seconds:
                return {"outcome": "hang", "detail": self._where(process)}
        line = process.stdout.readline()
        if not line.endswith("\n"):
            return self._died(process)
        answer: dict[str, Any] = json.loads(line)
        if answer["outcome"] == "fault of the suite":
            raise RuntimeError(f"{job}: {answer['detail']}")
        return answer

    def _memory(self, process: subprocess.Popen[str]) -> int:
        """The most that any one of the worker's processes has now."""
        found = [0]
        for one in _family(process):
            with suppress(psutil.Error):  # it ended while we looked
                found.append(one.memory_info().rss)
        return max(found)

    def _died(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        code = process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return {"outcome": "signal", "detail": f"{name} {self._line()}"}

    def _where(self, process: subprocess.Popen[str]) -> str:
        """Where in the package the worker is, if it says so soon."""
        process.send_signal(signal.SIGUSR1)
        for _ in range(10):
            time.sleep(_GLANCE_SECONDS)
            if (self.area / "crash").stat().st_size:
                break
        return self._line()

    def _line(self) -> str:
        """The innermost line of the package in what faulthandler wrote."""
        for line in (self.area / "crash").read_text(errors="replace").splitlines():
            if "/src/isocapsnet/" in line:
                file, _, number = line.partition('", line ')
                return f"at {file.rpartition('/src/isocapsnet/')[2]}:{number.split()[0]}"
        return "outside the package"

    def _end(self) -> None:
        """Kill the worker and all that it started, and clean up behind it."""
        if self._process is not None:
            for process in _family(self._process):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            with suppress(ProcessLookupError):  # what a dead worker had started
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None and not stream.closed:
                    stream.close()
        self._process, self._ready = None, set()
        for name in OUTSIDE:
            empty(self.area / name)
        shutil.rmtree(self.area / "given", ignore_errors=True)


def _family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """A process and all that it started; empty when it has ended."""
    try:
        parent = psutil.Process(process.pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _delays(process: subprocess.Popen[str]) -> dict[int, float]:
    """Seconds that each of a worker's processes has waited for a core that others had, where the system says so."""
    found = {}
    for one in _family(process):
        with suppress(OSError):
            found[one.pid] = int(Path(f"/proc/{one.pid}/schedstat").read_text().split()[1]) / 1e9
    return found


@dataclass
class Tally:
    """Outcomes of one format's cases, and which cases ended how."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    examples: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    seconds: float = 0.0

    def add(self, number: int, answer: Mapping[str, Any]) -> None:
        self.outcomes[answer["outcome"]] += 1
        if answer["outcome"] in BAD:
            self.examples[answer["outcome"], answer["detail"]].append(number)

    @property
    def n_failures(self) -> int:
        return sum(self.outcomes[name] for name in BAD)


def fuzz(
    name: str,
    numbers: Iterable[int],
    workers: list[Worker],
    on_failure: Callable[[Worker, int, Mapping[str, Any], int], None] | None = None,
) -> Tally:
    """Run cases of a format on these workers, each in a thread of its own.

    ``on_failure`` is called with the worker, the number, the answer and how often such an answer was seen before.
    """
    tally, lock, waiting = Tally(name), threading.Lock(), iter(numbers)
    started = time.monotonic()
    faults: list[BaseException] = []

    def serve(worker: Worker) -> None:
        while not faults:
            with lock:
                number = next(waiting, None)
            if number is None:
                return
            try:
                answer = worker.ask(format=name, number=number)
            except BaseException as error:
                faults.append(error)
                return
            with lock:
                known = len(tally.examples.get((answer["outcome"], answer.get("detail", "")), ()))
                tally.add(number, answer)
            if on_failure is not None and answer["outcome"] in BAD:
                on_failure(worker, number, answer, known)

    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    tally.seconds = time.monotonic() - started
    return tally
