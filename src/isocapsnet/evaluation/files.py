"""Files of a results folder: read with care, written whole or not at all."""

import errno
import json
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

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
        if "\\ud" in text or "\\uD" in text:  # half a character cannot be written or shown again
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


def write_whole(path: Path, content: bytes, partial_folder: Path | None = None) -> None:
    """Write beside the target, then replace it: a reader sees the old file or the new one, never a part.

    An error of the operating system names the target.
    """
    folder = partial_folder or path.parent
    partial = folder / f".{path.name}.{uuid4().hex}"
    for needed in {folder, path.parent}:
        needed.mkdir(parents=True, exist_ok=True)
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an error of the operating system the name of what was being written, where it has none.

    So is a full disk that other code has made into an error of its own.
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
    """Move a file, link or folder (or copy a file) into ``folder`` under its own name, numbered where that is taken.

    Nothing is overwritten. None when somebody else moved it first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    is_folder = path.is_dir() and not path.is_symlink()
    for number in count(1):
        place = folder / (path.name if number == 1 else f"{path.name}.{number}")
        try:
            place.mkdir() if is_folder else place.touch(exist_ok=False)  # the name is ours from here on
        except FileExistsError:
            continue
        try:
            shutil.copyfile(path, place) if as_copy else path.replace(place)
        except FileNotFoundError:
            place.rmdir() if is_folder else place.unlink()
            return None
        return place
    raise AssertionError
