"""Parsers of binary files run in a child process with limits.

A damaged or hostile file can crash scipy or HDF5, expand without end, or keep a parser busy for hours. The child has a
limit on address space and on CPU time. When it dies, the caller gets one sentence that names the file. It is started on
first use, parses all files of a command, and ends after a while without work. Arrays are returned as raw memory after a
line of JSON; nothing is pickled. If the system has no such limits (Windows; macOS has none on address space), only the
limit on declared sizes applies.
"""

import atexit
import ctypes
import gc
import json
import math
import os
import pkgutil
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import psutil
from numpy.typing import NDArray

from isocapsnet._validation import InputError

#: What an array may hold: numbers that mean the same on every machine, and texts.
DTYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248]|[SU]\d{1,9})")
_CPU_SECONDS = 5.0
_CPU_BYTES_PER_SECOND = 1e6
_IDLE_SECONDS = 60.0
_LEAST_ROOM = 256 << 20
_PR_SET_PDEATHSIG = 1

Parsed = tuple[dict[str, NDArray[Any]], dict[str, Any]]


class ReadLimit:
    """How many bytes of arrays may still be read into memory.

    Reading may use ``n_bytes``, by default the free memory. Data may fill a third of it, because they are in memory
    twice while they are combined. ``used`` bytes are already in use.
    """

    def __init__(self, n_bytes: int | None = None, used: int = 0) -> None:
        self.n_bytes = psutil.virtual_memory().available if n_bytes is None else n_bytes
        self.total = self.n_bytes // 3
        self.left = self.total - used

    def check(self, n_bytes: int, where: str) -> None:
        """Refuse data that do not fit, before they are allocated."""
        if n_bytes > self.left:
            already = f", of which {_size(self.total - self.left)} are used" if self.left < self.total else ""
            raise InputError(
                f"{where} needs {_size(n_bytes)}, but a read limit of {_size(self.n_bytes)} leaves room for "
                f"{_size(self.total)} of data{already}; increase read_limit= if the data are really that large."
            )

    def take(self, n_bytes: int, where: str) -> None:
        """Count bytes that are now in memory."""
        self.check(n_bytes, where)
        self.left -= n_bytes


def parse(parser: Callable[..., Parsed], path: Path, limit: ReadLimit, **options: Any) -> Parsed:
    """Run ``parser(path, limit, **options)``, a function of a module, in the child process.

    Returns the arrays by name, and the other facts as JSON values. The returned arrays are counted in ``limit``.
    """
    if not path.is_file():
        raise InputError(f"{path.name} is not a file.")
    request = {
        "parser": f"{parser.__module__}:{parser.__qualname__}",
        "path": str(path.absolute()),
        "options": options,
        "limit": [limit.n_bytes, limit.total - limit.left],
        "seconds": _CPU_SECONDS + path.stat().st_size / _CPU_BYTES_PER_SECOND,
    }
    with _LOCK:
        child = _child()
        answer = child.ask(request)
        if answer is None and child.exit_code() == 0:  # it had just ended because it had no work
            child = _child()
            answer = child.ask(request)
        if answer is None:
            code = child.exit_code()
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            cause = f"the parser crashed on it ({how})"
            if how == "SIGXCPU":
                cause = f"it kept the parser busy for more than {request['seconds']:.0f} s"
            raise InputError(f"{path.name} cannot be read: {cause}; the file is damaged or malicious.")
    arrays, facts = answer
    for name, array in arrays.items():
        if array.dtype.kind == "U" and not _is_text(array):
            raise InputError(f"{path.name}: {name} holds text that is not valid Unicode; the file is damaged.")
    limit.take(sum(array.nbytes for array in arrays.values()), path.name)
    return arrays, facts


def write_answer(stream: IO[bytes], arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
    """Write what :func:`read_answer` reads: a line of JSON, then the memory of each array."""
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    layout = [[name, array.dtype.str, array.shape] for name, array in contiguous.items()]
    stream.write(json.dumps({"arrays": layout, "facts": facts}).encode() + b"\n")
    for array in contiguous.values():
        stream.write(array.reshape(-1).view(np.uint8).data if array.nbytes else b"")
    stream.flush()


def read_answer(stream: IO[bytes]) -> Parsed | None:
    """The arrays and facts that the child sent; None when it died before it had sent them all."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    answer = json.loads(line)
    if "refused" in answer:
        raise InputError(answer["refused"])
    arrays = {}
    for name, dtype, shape in answer["arrays"]:
        assert DTYPE.fullmatch(dtype)
        array = np.empty(shape, dtype=dtype)
        if array.nbytes and stream.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:  # type: ignore[attr-defined]
            return None
        arrays[name] = array
    return arrays, answer["facts"]


class _Child:
    """The child process that parses, seen from its parent."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        # -P keeps the current folder, which may hold anything, off the child's import path.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from isocapsnet.datasets.isolation import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def is_alive(self) -> bool:
        return self.owner == os.getpid() and self._process.poll() is None

    def exit_code(self) -> int:
        return self._process.wait()

    def ask(self, request: dict[str, Any]) -> Parsed | None:
        """The answer to a request; None if the child died."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
            return read_answer(self._process.stdout)
        except InputError:
            raise
        except BaseException:  # Ctrl-C after the request: the next answer would belong to this request
            self.close()
            raise

    def close(self) -> None:
        if self.owner == os.getpid():
            with suppress(OSError), self._process:  # which closes the pipes and waits
                self._process.kill()


_LOCK = threading.Lock()
_CURRENT: list[_Child] = []


def _child() -> _Child:
    """The running child of this process, or a new one."""
    if not _CURRENT or not _CURRENT[0].is_alive():
        close_child()
        _CURRENT.append(_Child())
    return _CURRENT[0]


@atexit.register
def close_child() -> None:
    """End the child; the next file starts another."""
    while _CURRENT:
        _CURRENT.pop().close()


def _is_text(array: NDArray[Any]) -> bool:
    """Whether all characters of an array of texts exist; numpy does not check."""
    codes = np.ascontiguousarray(array).view(f"{array.dtype.byteorder}u4" if array.itemsize else "u1")
    return bool(((codes < 0xD800) | ((codes > 0xDFFF) & (codes < 0x110000))).all())


def _size(n_bytes: int) -> str:
    """``1.5 GB``."""
    power = min(4, max(0, int(math.log10(max(1, n_bytes)) // 3)))
    return f"{n_bytes / 1000**power:.3g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"


def serve() -> None:
    """The child: answer requests until the parent closes the pipe, or no request comes for a minute."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a library must not be mixed with answers
    # Where pipes cannot be waited for (Windows), reading waits.
    while os.name != "posix" or select.select([sys.stdin], [], [], _IDLE_SECONDS)[0]:
        if not (line := sys.stdin.buffer.readline()):
            break
        request = json.loads(line)
        path = Path(request["path"])
        try:
            parser: Callable[..., Parsed] = pkgutil.resolve_name(request["parser"])
            gc.freeze()  # the garbage collector need not look at the objects of libraries again after every file
            limit = ReadLimit(*request["limit"])
            _set_limits(limit.n_bytes, request["seconds"])
            write_answer(answers, *parser(path, limit, **request["options"]))
        except Exception as error:
            refusal = str(error) if isinstance(error, InputError) else _describe(path, error)
            answers.write(json.dumps({"refused": refusal}).encode() + b"\n")
            answers.flush()
        gc.collect()


def _set_limits(n_bytes: int, seconds: float) -> None:
    """Limit the address space to ``n_bytes`` and CPU time to ``seconds`` from now, and write no core files."""
    try:
        import resource
    except ImportError:
        return
    used = os.times()
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: int(used.user + used.system + seconds) + 1}
    if sys.platform == "linux":
        limits[resource.RLIMIT_AS] = max(n_bytes, psutil.Process().memory_info().vms + _LEAST_ROOM)
    for which, soft in limits.items():
        resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))


def _describe(path: Path, error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"{path.name} needs more memory than the read limit; increase read_limit= if the file is intact."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or path} cannot be read or written ({error.strerror})."
    reason = " ".join(str(error).split())[:200]
    return f"{path.name} is damaged or is not what its name says ({type(error).__name__}: {reason})."
