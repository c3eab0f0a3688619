"""Compiled code of an earlier version is forgotten.

Numba tells by the file of a function alone whether what it kept of it is current, but our kernels are compiled from
several files: after an update of one of them, the code of the others would stay as it was.
"""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path


def forget_stale_code(folder: Path) -> None:
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
