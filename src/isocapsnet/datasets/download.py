"""Downloads by pooch: https only, checked, and saved only if complete."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from isocapsnet._packages import importing
from isocapsnet._validation import InputError
from isocapsnet.datasets.archive import replacing

_RECORD = "checksums.json"
_SECONDS = 30

#: Called with the file's name, the bytes that have arrived and the bytes that are expected (``None`` when unknown).
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class RemoteFile:
    """A file to download.

    ``checksum`` is "sha256:...", "md5:..." or "git-blob:..." (git's object id: the sha1 of ``blob <size>\\0`` and the
    content). Where it is ``None``, the checksum of the first download is recorded and compared with later ones.
    """

    url: str
    path: str
    checksum: str | None = None


def download(file: RemoteFile, folder: Path, progress: Progress | None = None) -> Path:
    """Return the local path of a file, downloading it into ``folder`` unless it is there and intact."""
    with importing("Downloading datasets needs pooch", "data"):
        import pooch
        import requests

    target = folder / file.path
    checksum = file.checksum or _recorded(folder).get(file.path)
    if target.exists() and _matches(target, checksum):
        return target
    target.unlink(missing_ok=True)
    bar = _Bar(target.name, progress) if progress else False
    http = pooch.HTTPDownloader(progressbar=bar, timeout=_SECONDS, hooks={"response": _check_hop})

    def fetch(url: str, output_file: str, manager: Any) -> None:
        _check_address(url)
        http(url, output_file, manager)
        if not _matches(Path(output_file), checksum):
            raise InputError(f"{url} does not have the checksum {checksum}; it was changed, and has not been kept.")

    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(file.url, known_hash=None, fname=target.name, path=target.parent, downloader=fetch)
    except requests.HTTPError as error:
        raise InputError(f"{file.url} cannot be downloaded ({error}); it may have moved.") from error
    except requests.exceptions.ChunkedEncodingError as error:
        raise InputError(f"The connection broke while {file.url} was downloaded; try again.") from error
    except requests.RequestException as error:
        raise InputError(
            f"{file.url} cannot be reached ({type(error).__name__}); check the network, or download the file elsewhere "
            f"and put it at {target}."
        ) from error
    if checksum is None:
        with replacing(folder / _RECORD) as record:
            recorded = _recorded(folder) | {file.path: f"sha256:{pooch.file_hash(target)}"}
            record.write(json.dumps(recorded, indent=1).encode())
    return target


def recorded_checksum(file: RemoteFile, folder: Path) -> str | None:
    """The checksum that was recorded on the first download of a file that had none; ``None`` otherwise."""
    return None if file.checksum else _recorded(folder).get(file.path)


def _recorded(folder: Path) -> dict[str, str]:
    path = folder / _RECORD
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _matches(path: Path, checksum: str | None) -> bool:
    """Whether a file has the given checksum; any file matches ``None``."""
    if checksum is None:
        return True
    algorithm, _, expected = checksum.partition(":")
    if algorithm == "git-blob":
        content = path.read_bytes()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == expected
    import pooch

    return bool(pooch.file_hash(path, alg=algorithm) == expected)


def _check_address(url: str) -> None:
    address = urlsplit(url)
    if address.scheme != "https" and address.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise InputError(f"{url} is not https; downloads over unprotected connections are refused.")


def _check_hop(response: Any, *arguments: Any, **options: Any) -> None:
    """Called by requests before it follows a redirect."""
    if response.is_redirect:
        _check_address(urljoin(response.url, response.headers["Location"]))


class _Bar:
    """What pooch expects of a progress bar."""

    def __init__(self, name: str, progress: Progress) -> None:
        self.name, self.progress, self.total, self.done = name, progress, 0, 0

    def update(self, n_bytes: int) -> None:
        self.done = min(self.done + n_bytes, self.total) if self.total else self.done + n_bytes
        self.progress(self.name, self.done, self.total or None)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing is left open."""
