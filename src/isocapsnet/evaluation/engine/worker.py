"""A worker slot: one child process that runs job after job and is replaced when it hangs or dies.

Executors cannot kill a hung job, and a dead process breaks a process pool; a worker slot handles both.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil

# One torch, BLAS and numba thread per job, so that results do not depend on where a job ran. The libraries read these
# when they are imported; in a process that runs already, :func:`isocapsnet._threads.one_thread` does the same.
_LIBRARIES = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "BLIS_NUM", "NUMEXPR_NUM", "NUMBA_NUM", "VECLIB_MAXIMUM")
ONE_THREAD = {f"{library}_THREADS": "1" for library in _LIBRARIES}
# The C library returns freed memory to the operating system, which clears it when the next training step allocates it
# again, page by page: a tenth of the time of a fit. It reads this when the process starts. Large pages hold what stays.
_MALLOC = {"trim_threshold": 512 * 1024**2, "mmap_threshold": 32 * 1024**2, "hugetlb": 1}
KEPT_MEMORY = {"GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in _MALLOC.items())}
_WATCH_SECONDS = 0.05
_STDERR_TAIL = 2000
_ANSWERS = {"started": bool, "stage": list, "record": dict, "error": dict, "full": str}
# A process that has closed its answers ends by itself, if at all, within this time.
_END_SECONDS = 5.0


@dataclass(frozen=True)
class Limits:
    """Seconds that a job may take once data and method are loaded, and bytes that it may use; None: no limit."""

    seconds: float | None = None
    memory: int | None = None


class Worker:
    """Owns one child process. Not shared between threads."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._retired = False
        self._starting = threading.Lock()
        # The child's stderr: shown with the failure when it dies.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the slot lives

    def run(
        self, task: dict[str, Any], limits: Limits, on_stage: Callable[[list[Any]], None] = lambda stage: None
    ) -> dict[str, Any]:
        """Run one task in the child; ``{"record": ...}`` or ``{"error": ...}``.

        ``on_stage`` is called with what the child reports in between.
        """
        self._log.truncate(0)
        child = self._send(json.dumps(task) + "\n")
        if child is None:
            return {"error": {"reason": "Stopped: the run ended before the job did", "traceback": ""}}
        answer = self._read_answer(child)
        if answer is None or "started" not in answer:
            return answer or self._report_death("while loading the data and the method")
        with _watching(child, limits) as broken:
            while (answer := self._read_answer(child)) is not None and "stage" in answer:
                on_stage(answer["stage"])
        if answer is None:
            return self._report_death("while running the job", *broken)
        if broken:  # the answer came while the child was being killed
            self.close()
        return answer

    def retire(self) -> None:
        """Kill the child and never start another; may be called from any thread."""
        with self._starting:
            self._retired = True
            if self._child is not None:
                _kill_group(self._child)

    def close(self) -> None:
        """Kill the child and forget it."""
        child, self._child = self._child, None
        if child is not None:
            _kill_group(child)
            child.wait()
            for pipe in (child.stdin, child.stdout):
                with suppress(OSError):
                    assert pipe is not None
                    pipe.close()

    def __del__(self) -> None:
        self.close()
        self._log.close()

    def _send(self, line: str) -> "subprocess.Popen[str] | None":
        """Hand a line to the child, to a new one where there is none or it died idle; None when retired."""
        for _ in range(2):
            child = self._living_child()
            if child is None:
                break
            assert child.stdin is not None
            with suppress(OSError):
                child.stdin.write(line)
                child.stdin.flush()
                break
            self.close()
        return child

    def _living_child(self) -> "subprocess.Popen[str] | None":
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        with self._starting:
            if self._retired:
                return None
            # Own session: Ctrl-C in the terminal reaches the runner alone, and a kill reaches grandchildren.
            self._child = subprocess.Popen(
                [sys.executable, "-c", "from isocapsnet.evaluation.engine.child import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                encoding="utf-8",
                env=self._environment(),
                start_new_session=True,
            )
        return self._child

    @staticmethod
    def _environment() -> dict[str, str]:
        """That of the child. Memory is kept unless the user has set the C library (GLIBC_TUNABLES, MALLOC_...)."""
        # For glibc, MALLOC_TRIM_THRESHOLD_ and the like count less than GLIBC_TUNABLES.
        kept = {} if any(name.startswith("MALLOC_") for name in os.environ) else KEPT_MEMORY
        return {**kept, **os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def _read_answer(self, child: "subprocess.Popen[str]") -> dict[str, Any] | None:
        """The child's next answer; None when it died first, or said what is no answer."""
        assert child.stdout is not None
        try:
            answer = json.loads(child.stdout.readline())
        except (ValueError, RecursionError):
            return None
        [(kind, content)] = answer.items() if isinstance(answer, dict) and len(answer) == 1 else [("", None)]
        return answer if isinstance(content, _ANSWERS.get(kind, ())) else None

    def _report_death(self, when: str, reason: str | None = None) -> dict[str, Any]:
        """The error of a job whose child has ended."""
        child = self._child
        assert child is not None
        _await_end(child)
        _kill_group(child)
        code = child.wait()
        if reason is None:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            hint = " (out of memory?)" if how.endswith("SIGKILL") else ""
            reason = f"ProcessDied: the process {how} {when}{hint}"
        # Emptied before the job while the child kept its position in the file, so the file may begin with zeros.
        self._log.seek(0)
        tail = self._log.read().lstrip(b"\0").decode(errors="replace")[-_STDERR_TAIL:]
        self.close()
        return {"error": {"reason": reason, "traceback": tail}}


@contextmanager
def _watching(child: "subprocess.Popen[str]", limits: Limits) -> Iterator[list[str]]:
    """Kill a child that breaks a limit, from a thread of its own; yield the list to which the reason is added."""
    broken: list[str] = []
    over = threading.Event()

    def look() -> None:
        started = time.monotonic()
        while not broken and not over.wait(_WATCH_SECONDS):
            if limits.seconds is not None and time.monotonic() - started > limits.seconds:
                broken.append(f"Timeout: over {limits.seconds:g} s")
            elif limits.memory is not None and (used := _used_memory(child.pid)) > limits.memory:
                broken.append(f"MemoryLimit: {used / 1e6:.0f} MB, over the limit of {limits.memory / 1e6:.0f} MB")
        if broken:
            _kill_group(child)

    thread = threading.Thread(target=look, daemon=True)
    if limits != Limits():
        thread.start()
    try:
        yield broken
    finally:
        over.set()
        if thread.is_alive():
            thread.join()


def _used_memory(pid: int) -> int:
    """Bytes that a process uses, on Linux without mapped files such as a dataset; 0 if it has ended."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0
    return int(memory.rss - getattr(memory, "shared", 0))


# Each thread that runs jobs is a slot. Linux's parent-death signal fires when the *thread* that started a child
# ends, so a child must not outlive or leave its thread.
_SLOT = threading.local()


def own_worker() -> Worker:
    """This thread's worker."""
    if not hasattr(_SLOT, "worker"):
        _SLOT.worker = Worker()
    worker: Worker = _SLOT.worker
    return worker


def run_in_child(
    task: dict[str, Any], limits: Limits, on_stage: Callable[[list[Any]], None] = lambda stage: None
) -> dict[str, Any]:
    """Run a task in this thread's own child process; ``on_stage`` is called in this thread."""
    return own_worker().run(task, limits, on_stage)


def _await_end(child: "subprocess.Popen[str]") -> None:
    """Let a child that is ending do so, for its own exit code; it stays a zombie, so its group can still be killed."""
    if not hasattr(os, "waitid"):
        return
    deadline = time.monotonic() + _END_SECONDS
    with suppress(ChildProcessError):
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > deadline:
                return
            time.sleep(_WATCH_SECONDS / 10)


def _kill_group(child: "subprocess.Popen[str]") -> None:
    """Kill a child and its own children, unless it was waited for: its number may be another's by then."""
    if child.returncode is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
