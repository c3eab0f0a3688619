"""The process that parses binary files for :mod:`~isocapsnet.datasets.isolation`: a line of JSON in, an answer out."""

import ctypes
import gc
import json
import os
import pkgutil
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from isocapsnet._validation import InputError
from isocapsnet.datasets.isolation import Parsed, ReadLimit, write_answer

_IDLE_SECONDS = 60.0
_LEAST_ROOM = 256 << 20
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Answer requests until the parent closes the pipe, or there was nothing to do for a minute."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not end up among the answers
    while _has_request() and (line := sys.stdin.buffer.readline()):
        request = json.loads(line)
        path = Path(request["path"])
        try:
            arrays, facts = _run(request, path)
            write_answer(answers, arrays, facts)
            del arrays
        except Exception as error:
            refusal = str(error) if isinstance(error, InputError) else _describe(path, error)
            answers.write(json.dumps({"refused": refusal}).encode() + b"\n")
            answers.flush()
        gc.collect()


def _has_request() -> bool:
    """Wait for a request; False when none came. Where pipes cannot be waited for (Windows), reading waits."""
    return os.name != "posix" or bool(select.select([sys.stdin], [], [], _IDLE_SECONDS)[0])


def _run(request: dict[str, Any], path: Path) -> Parsed:
    parser: Callable[..., Parsed] = pkgutil.resolve_name(request["parser"])
    gc.freeze()  # what the libraries hold need not be looked at again after every file
    limit = ReadLimit(*request["limit"])
    _set_limits(limit.n_bytes, request["seconds"])
    return parser(path, limit, **request["options"])


def _set_limits(n_bytes: int, seconds: float) -> None:
    """Limit the address space to ``n_bytes`` and CPU time to ``seconds`` from now, and write no core files."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_limit = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    if sys.platform == "linux":
        room = max(n_bytes, psutil.Process().memory_info().vms + _LEAST_ROOM)
        resource.setrlimit(resource.RLIMIT_AS, (room, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _describe(path: Path, error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"{path.name} needs more memory than the read limit; raise read_limit= if the file is intact."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or path} cannot be read or written ({error.strerror})."
    reason = " ".join(str(error).split())[:200]
    return f"{path.name} is damaged or is not what its name says ({type(error).__name__}: {reason})."
