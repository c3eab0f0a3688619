"""The artifacts of a fit beside its record: history, templates, warnings, the model and its explanation."""

import json
import pkgutil
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from isocapsnet._files import DamagedError, full_disk, naming, read_json
from isocapsnet.evaluation.failures import describe_failure
from isocapsnet.evaluation.preparation import Preparation

MODEL_FILE = "model.safetensors"
_HISTORY, _TEMPLATES, _WARNINGS = "history.json", "templates.npz", "warnings.json"
# More than the arrays of any fit; a small zip file can claim to hold any amount.
_LARGEST_ARRAYS = 4 << 30
_MOST_TEMPLATES = 1000


def write_artifacts(
    folder: Path,
    estimator: Any,
    caught: Sequence[warnings.WarningMessage],
    save_model: str | None,
    explain: str | None = None,
    held_out: tuple[NDArray[Any], NDArray[Any]] | None = None,
    preparation: Preparation | None = None,
) -> None:
    """Write the artifacts of a fitted estimator into ``folder`` in one step, in place of earlier ones.

    ``history.json`` has one entry per epoch, ``templates.npz`` the array ``templates`` and ``warnings.json`` each
    different warning once. ``save_model(estimator, path, preparation)`` (an import path) writes ``model.safetensors``,
    and ``explain(estimator, graphs, labels, folder)`` (an import path) writes files of its own about the held-out
    graphs; if it fails, a warning is added. A file without content is not written.
    """
    history, templates = getattr(estimator, "history_", None), getattr(estimator, "templates_", None)
    messages = list(dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught))
    if explain is None and history is None and templates is None and not messages and save_model is None:
        return
    with replacing_folder(folder) as partial:
        if explain is not None and held_out is not None:
            messages += _explain(explain, estimator, held_out, partial)
        if history is not None:
            (partial / _HISTORY).write_bytes(json.dumps([_scalars(epoch) for epoch in history]).encode())
        if templates is not None:
            np.savez(partial / _TEMPLATES, templates=np.asarray(templates))
        if messages:
            (partial / _WARNINGS).write_bytes(json.dumps(messages).encode())
        if save_model is not None:
            pkgutil.resolve_name(save_model)(estimator, partial / MODEL_FILE, preparation)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a partial folder that replaces ``folder`` in one step when the block ends without an error.

    An empty folder is not kept. The partial folder is in ``partial/`` of the results folder.
    """
    partial = folder.parents[1] / "partial" / uuid4().hex
    try:
        with naming(folder):
            partial.mkdir(parents=True)
            yield partial
            shutil.rmtree(folder, ignore_errors=True)
            if any(partial.iterdir()):
                folder.parent.mkdir(exist_ok=True)
                try:
                    partial.replace(folder)
                except OSError:
                    if not folder.is_dir():  # else another run of the same job has written equal artifacts
                        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _explain(explain: str, estimator: Any, held_out: tuple[NDArray[Any], NDArray[Any]], folder: Path) -> list[str]:
    """Let ``explain`` write its files; a warning if it fails."""
    try:
        pkgutil.resolve_name(explain)(estimator, *held_out, folder)
    except Exception as error:
        if full_disk(error) is not None:
            raise
        return [f"There is no explanation of this fit ({describe_failure(error)['reason']})"]
    return []


def _scalars(epoch: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The numbers of one epoch without lists per batch; NaN and infinity become null."""
    values = {name: value.item() if isinstance(value, np.generic) else value for name, value in dict(epoch).items()}
    plain = {name: value for name, value in values.items() if isinstance(value, bool | int | float | str | None)}
    return {name: None if value in (np.inf, -np.inf) or value != value else value for name, value in plain.items()}


# -- reading ------------------------------------------------------------------------------------------------------


def check_artifacts(folder: Path) -> None:
    """Refuse a folder of artifacts with a file that is damaged; a missing folder is accepted.

    JSON is parsed and archives are compared with their checksums; models have a digest of their own.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DamagedError("is not a folder")
    for path in sorted(folder.glob("*")):
        try:
            if path.is_symlink() or not path.is_file():
                raise DamagedError("is not a file")
            if path.suffix == ".json":
                read_json(path)
            elif path.suffix == ".npz":
                read_arrays(path)
        except DamagedError as error:
            raise DamagedError(f"is damaged: {path.name} {error}") from error


def read_history(folder: Path) -> list[dict[str, Any]]:
    """One mapping of numbers and texts per epoch; empty without a history."""
    history = _read_list(folder / _HISTORY)
    for epoch in history:
        if not isinstance(epoch, dict) or not _is_number(epoch.get("epoch")):
            raise DamagedError("has an epoch without a number")
        if not all(_is_number(epoch[name]) for name in ("train_loss", "valid_loss") if epoch.get(name) is not None):
            raise DamagedError("has a loss that is not a number")
    return history


def read_warnings(folder: Path) -> list[str]:
    """The warnings of a fit."""
    messages = _read_list(folder / _WARNINGS)
    if not all(isinstance(message, str) for message in messages):
        raise DamagedError("has a warning that is not text")
    return messages


def read_templates(folder: Path) -> NDArray[Any] | None:
    """The learned templates ``(n_templates, k, k)``, or None."""
    path = folder / _TEMPLATES
    if not path.exists():
        return None
    templates = read_arrays(path).get("templates", np.zeros(0))
    if templates.ndim != 3 or 0 in templates.shape or templates.shape[1] != templates.shape[2]:
        raise DamagedError(f"holds no templates of shape (n, k, k), but {templates.shape}")
    if max(templates.shape) > _MOST_TEMPLATES:
        raise DamagedError(f"claims {templates.shape[0]} templates of {templates.shape[1]} nodes")
    if templates.dtype.kind not in "fiub" or not np.isfinite(templates).all():
        raise DamagedError("holds templates that are not finite numbers")
    return templates


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` without pickles; all are read and compared with their checksums."""
    try:
        if path.is_symlink() or not path.is_file():
            raise DamagedError("is not a file")
        with ZipFile(path) as archive:
            claimed = sum(member.file_size for member in archive.infolist())
        if claimed > _LARGEST_ARRAYS:
            raise DamagedError(f"claims to hold {claimed / 1e9:.0f} GB")
        with np.load(path, allow_pickle=False) as arrays:
            members = dict(arrays)
        if not all(isinstance(array, np.ndarray) for array in members.values()):  # numpy returns others as bytes
            raise DamagedError("holds more than arrays")
        return members
    except DamagedError:
        raise
    except Exception as error:  # zipfile and numpy raise many types for broken archives
        raise DamagedError(f"cannot be read ({type(error).__name__}: {error})"[:300]) from error


def _read_list(path: Path) -> list[Any]:
    try:
        content = read_json(path)
    except FileNotFoundError:
        return []
    if not isinstance(content, list):
        raise DamagedError("holds no list")
    return content


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e38
