"""Removal of compiled code of an earlier version.

Numba keeps compiled code of a function as long as the file of that function stays the same. Our kernels are compiled
from several files: after an update of one of them, Numba would still use old code of the others.
"""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path


def remove_stale_code(folder: Path) -> None:
    """Remove what Numba keeps of this package's kernels in ``folder``, unless it is from the same sources."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    stamp = folder / "isocapsnet-kernels.txt"
    with suppress(OSError):  # of another process that does the same, or a folder that cannot be written to
        if stamp.exists() and stamp.read_text() == digest:
            return
        for source in sources:
            for index in folder.glob(f"{source.stem}.*.nbi"):
                index.unlink(missing_ok=True)
        stamp.write_text(digest)
