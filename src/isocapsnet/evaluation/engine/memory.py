"""Memory of a process, read from the operating system; ``tracemalloc`` does not see torch."""

import os
import re
import sys
from pathlib import Path


def reset_peak_memory() -> None:
    """Reset :func:`peak_memory` (Linux only)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> int:
    """The largest memory of this process in bytes: since the reset on Linux, elsewhere since its start."""
    peak = _status("self", "VmHWM")
    if peak is not None:
        return peak
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def anonymous_memory(pid: int) -> int | None:
    """Memory of a process in bytes without mapped files, such as a memory-mapped dataset; None if unknown."""
    return _status(str(pid), "RssAnon")


def can_watch_memory() -> bool:
    """Whether :func:`anonymous_memory` works here."""
    return anonymous_memory(os.getpid()) is not None


def _status(process: str, field: str) -> int | None:
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    match = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None
