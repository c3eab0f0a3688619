"""Files read with care, written whole or not at all (leaf module)."""

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: No file that a benchmark writes as JSON comes near this size.
MAX_JSON_BYTES = 1 << 30
_FULL = (errno.ENOSPC, errno.EDQUOT)


class DamagedError(ValueError):
    """A file that cannot be used; the text says why and follows the file's name in a sentence."""


def read_json(path: Path) -> Any:
    """The JSON value in a regular file. Links are not followed; NaN, infinity and broken text are refused."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("is a link" if stat.S_ISLNK(status.st_mode) else "is not a file")
        if status.st_size > MAX_JSON_BYTES:
            raise DamagedError(f"has {status.st_size / 1e9:.0f} GB, more than any file of a benchmark")
        text = path.read_bytes().decode()
        content = json.loads(text, parse_constant=_refuse)
        if "\\ud" in text or "\\uD" in text:  # a lone surrogate cannot be encoded
            json.dumps(content, ensure_ascii=False).encode()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(path) from error
    except OSError as error:
        raise DamagedError(f"cannot be read ({error.strerror})") from error
    except UnicodeError as error:
        raise DamagedError("is not UTF-8 text") from error
    except (RecursionError, MemoryError) as error:
        raise DamagedError("is nested too deeply, or too large") from error
    except json.JSONDecodeError as error:
        raise DamagedError(f"is not JSON ({error})" if text.strip() else "is empty") from error
    except ValueError as error:
        raise error if isinstance(error, DamagedError) else DamagedError(f"is not JSON ({error})") from error
    return content


def _refuse(constant: str) -> NoReturn:
    raise DamagedError(f"holds {constant}")


@contextmanager
def replacing(path: Path, partial_folder: Path | None = None) -> Iterator[Path]:
    """Yield the path of a partial file that replaces ``path`` when the block ends without an error.

    A reader sees the old file or the new one, never a part. The partial file is in ``partial_folder`` (default: beside
    the target, on the same disk). An error of the operating system names the target.
    """
    folder = partial_folder or path.parent
    partial = folder / f".{path.name}.{uuid4().hex}"
    for needed in {folder, path.parent}:
        needed.mkdir(parents=True, exist_ok=True)
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes, partial_folder: Path | None = None) -> None:
    """Write ``content`` into a file through :func:`replacing`."""
    with replacing(path, partial_folder) as partial:
        partial.write_bytes(content)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder, for which other processes and threads wait; none where :func:`can_lock` is False."""
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # ends the lock


def can_lock(folder: Path) -> bool:
    """Whether folders can be locked where this one is: not on Windows, and not on every network file system."""
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        return False
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another run holds it
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name ``path`` in an error of the operating system that names no file.

    A full disk that other code reports as an error of its own is raised as an error of the operating system.
    """
    try:
        yield
    except Exception as error:
        cause = full_disk(error) or error
        if not isinstance(cause, OSError) or cause.errno is None or (cause is error and cause.filename is not None):
            raise
        raise OSError(cause.errno, cause.strerror, cause.filename or str(path)) from error


def full_disk(error: BaseException | None) -> OSError | None:
    """The error "no space left" (or "quota exceeded") that is, or caused, this one."""
    for _ in range(10):
        if error is None or (isinstance(error, OSError) and error.errno in _FULL):
            return error
        error = error.__cause__ or error.__context__
    return None


def set_aside(path: Path, folder: Path, *, as_copy: bool = False) -> Path | None:
    """Move a file, link or folder (or copy a file) into ``folder``; add a number to its name if the name is taken.

    Nothing is overwritten. Returns None if another process moved it first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    is_folder = path.is_dir() and not path.is_symlink()
    for number in count(1):
        target = folder / (path.name if number == 1 else f"{path.name}.{number}")
        try:
            target.mkdir() if is_folder else target.touch(exist_ok=False)  # reserves the name
        except FileExistsError:
            continue
        try:
            shutil.copyfile(path, target) if as_copy else path.replace(target)
        except FileNotFoundError:
            target.rmdir() if is_folder else target.unlink()
            return None
        return target
    raise AssertionError
