"""The peak memory of this process, from the operating system; ``tracemalloc`` does not see torch."""

import re
import sys
from contextlib import suppress
from pathlib import Path


def reset_peak_memory() -> None:
    """Reset :func:`peak_memory` (Linux only)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """The largest memory of this process in bytes: since the reset on Linux, elsewhere since its start."""
    with suppress(OSError):
        match = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
        if match is not None:
            return int(match[1]) * 1024
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
