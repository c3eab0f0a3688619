"""Downloads that can be trusted: https only, checked, atomic, resumable."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from isocapsnet._validation import InputError
from isocapsnet.datasets.archive import replacing

_CHUNK = 1 << 16
_MAX_REDIRECTS = 5
_RECORD = "checksums.json"

#: Called with the bytes that have arrived and the bytes that are expected (``None`` when unknown).
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class RemoteFile:
    """A file to download.

    ``checksum`` is "sha256:...", "md5:..." or "git-blob:..." (git's object id: the sha1 of ``blob <size>\\0`` and the
    content); ``None`` when none is known yet: it is then recorded on the first download and held against later ones.
    """

    url: str
    path: str
    checksum: str | None = None
    size: int | None = None


def download(file: RemoteFile, folder: Path, progress: Progress | None = None) -> Path:
    """Return the local path of a file, downloading it into ``folder`` unless it is there and intact."""
    try:
        import pooch
    except ImportError as error:
        raise InputError("Downloading datasets needs pooch; install isocapsnet[data].") from error

    target = folder / file.path
    checksum = file.checksum or _recorded(folder).get(file.path)
    if target.exists() and matches(target, checksum):
        return target
    target.unlink(missing_ok=True)
    pooch.get_logger().setLevel("WARNING")
    fetcher = _Fetcher(target.with_name(f".{target.name}.part"), checksum, file.size, progress)
    pooch.retrieve(file.url, known_hash=None, fname=target.name, path=target.parent, downloader=fetcher)
    if checksum is None:
        _record(folder, file.path, target)
    return target


def recorded_checksum(file: RemoteFile, folder: Path) -> str | None:
    """The checksum that was recorded on the first download of a file that had none; ``None`` otherwise."""
    return None if file.checksum else _recorded(folder).get(file.path)


def matches(path: Path, checksum: str | None) -> bool:
    """Whether a file has the given checksum; anything matches an unknown one."""
    if checksum is None:
        return True
    algorithm, _, expected = checksum.partition(":")
    digest = hashlib.new({"git-blob": "sha1"}.get(algorithm, algorithm))
    if algorithm == "git-blob":
        digest.update(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == expected


class _Fetcher:
    """A downloader for pooch that keeps what has arrived when the connection breaks and continues from there."""

    def __init__(self, part: Path, checksum: str | None, size: int | None, progress: Progress | None) -> None:
        self.part, self.checksum, self.size, self.progress = part, checksum, size, progress

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        import requests

        try:
            self._fetch(url)
        except requests.HTTPError as error:
            raise InputError(
                f"{url} could not be had ({error}); the file may have moved: look at the dataset's home page."
            ) from error
        except (requests.ConnectionError, requests.Timeout) as error:
            if self.part.exists() and self.part.stat().st_size:
                raise self._incomplete(url) from error
            raise InputError(
                f"{urlsplit(url).hostname} could not be reached; check the network, or download {url} on another "
                f"machine and put it at {self.part.with_name(self.part.name[1:-5])}."
            ) from error
        except requests.exceptions.ChunkedEncodingError as error:
            raise self._incomplete(url) from error
        if self.size is not None and self.part.stat().st_size != self.size:
            raise self._refused(url, f"has {self.part.stat().st_size} bytes instead of {self.size}")
        if not matches(self.part, self.checksum):
            raise self._refused(url, f"does not have the checksum {self.checksum}")
        self.part.replace(output_file)

    def _fetch(self, url: str) -> None:
        self.part.parent.mkdir(parents=True, exist_ok=True)
        # Without a checksum nothing would show that two halves belong to different versions of the file.
        done = self.part.stat().st_size if self.part.exists() and self.checksum else 0
        with _open(url, {"Range": f"bytes={done}-"} if done else {}) as response:
            if response.status_code == 416:
                self.part.unlink()
                return self._fetch(url)
            response.raise_for_status()
            if response.status_code != 206:
                done = 0
            length = response.headers.get("Content-Length")
            total = done + int(length) if length else self.size
            with self.part.open("ab" if done else "wb") as output:
                for chunk in response.iter_content(_CHUNK):
                    output.write(chunk)
                    done += len(chunk)
                    if self.progress:
                        self.progress(self.part.name[1:-5], done, total)
        return None

    def _incomplete(self, url: str) -> InputError:
        return InputError(f"The connection broke while {url} arrived; run the command again to continue.")

    def _refused(self, url: str, why: str) -> InputError:
        self.part.unlink()
        return InputError(f"{url} {why}; it was changed or damaged on the way and has not been kept.")


def _open(url: str, headers: dict[str, str]) -> Any:
    """Open a URL, following redirects by hand: each hop must be https (or this very machine)."""
    import requests

    for _ in range(_MAX_REDIRECTS):
        address = urlsplit(url)
        if address.scheme != "https" and address.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise InputError(f"{url} is not https; downloads over unprotected connections are refused.")
        response = requests.get(url, headers=headers, stream=True, timeout=30, allow_redirects=False)
        if not response.is_redirect:
            return response
        url = urljoin(url, response.headers["Location"])
        response.close()
    raise InputError(f"{url} redirects more than {_MAX_REDIRECTS} times.")


def _recorded(folder: Path) -> dict[str, str]:
    path = folder / _RECORD
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _record(folder: Path, name: str, path: Path) -> None:
    with path.open("rb") as content:
        checksum = f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
    with replacing(folder / _RECORD) as record:
        record.write(json.dumps(_recorded(folder) | {name: checksum}, indent=1).encode())
