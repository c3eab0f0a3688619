"""What stands beside a record for the report: history, templates, warnings, the model, what explains it."""

import json
import pkgutil
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from isocapsnet._files import DamagedError, full_disk, naming, read_json
from isocapsnet.evaluation.failures import describe_failure

MODEL_FILE = "model.safetensors"
_HISTORY, _TEMPLATES, _WARNINGS = "history.json", "templates.npz", "warnings.json"
# More than the arrays of any fit; a few kilobytes of zip can claim to hold any amount.
_LARGEST_ARRAYS = 4 << 30
_MOST_TEMPLATES = 1000


def write_artifacts(
    folder: Path,
    estimator: Any,
    caught: Sequence[warnings.WarningMessage],
    save_model: str | None,
    explain: str | None = None,
    held_out: tuple[NDArray[Any], NDArray[Any]] | None = None,
) -> None:
    """Write what ``estimator`` has to show into ``folder``, all of it or nothing; an earlier try is replaced.

    ``history.json`` holds one entry per epoch, ``templates.npz`` the array ``templates``, ``warnings.json`` each
    different warning once, and ``model.safetensors`` what ``save_model(estimator, path)`` (an import path)
    writes. ``explain(estimator, graphs, labels, folder)`` (an import path) adds files of its own about the held-out
    graphs; when it fails, that is one more warning. A file is missing when there is nothing to put in it.
    """
    history, templates = getattr(estimator, "history_", None), getattr(estimator, "templates_", None)
    messages = list(dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught))
    if explain is None and history is None and templates is None and not messages and save_model is None:
        return
    partial = folder.parents[1] / "partial" / uuid4().hex
    try:
        with naming(folder):
            partial.mkdir(parents=True)
            if explain is not None and held_out is not None:
                messages += _explain(explain, estimator, held_out, partial)
            if history is not None:
                (partial / _HISTORY).write_bytes(json.dumps([_scalars(epoch) for epoch in history]).encode())
            if templates is not None:
                np.savez(partial / _TEMPLATES, templates=np.asarray(templates))
            if messages:
                (partial / _WARNINGS).write_bytes(json.dumps(messages).encode())
            if save_model is not None:
                pkgutil.resolve_name(save_model)(estimator, partial / MODEL_FILE)
            _move(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _explain(explain: str, estimator: Any, held_out: tuple[NDArray[Any], NDArray[Any]], folder: Path) -> list[str]:
    """Let ``explain`` write its files; the warning that it gives where it fails."""
    try:
        pkgutil.resolve_name(explain)(estimator, *held_out, folder)
    except Exception as error:
        if full_disk(error) is not None:
            raise
        return [f"There is no explanation of this fit ({describe_failure(error)['reason']})"]
    return []


def _move(partial: Path, folder: Path) -> None:
    """Put a folder that is complete in its place, unless it is empty."""
    shutil.rmtree(folder, ignore_errors=True)
    if not any(partial.iterdir()):
        return
    folder.parent.mkdir(exist_ok=True)
    try:
        partial.replace(folder)
    except OSError:
        if not folder.is_dir():
            raise
        # Another run of the same job was quicker, and its artifacts are as good.


def _scalars(epoch: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The numbers of one epoch; per-batch lists are left out, and what is not finite becomes null."""
    plain: dict[str, Any] = {}
    for name, value in dict(epoch).items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool | int | str) or value is None:
            plain[name] = value
        elif isinstance(value, float):
            plain[name] = value if np.isfinite(value) else None
    return plain


# -- reading ------------------------------------------------------------------------------------------------------


def check_artifacts(folder: Path) -> None:
    """Refuse a folder of artifacts that holds something that cannot be read whole; a missing one is fine.

    JSON must be JSON and archives must match their checksums; models have a digest of their own.
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
    """One mapping per epoch, numbers and texts alone; empty where there is none."""
    history = _read_list(folder / _HISTORY)
    for epoch in history:
        if not isinstance(epoch, dict) or not _is_number(epoch.get("epoch")):
            raise DamagedError("has an epoch without a number")
        if not all(_is_number(epoch[name]) for name in ("train_loss", "valid_loss") if epoch.get(name) is not None):
            raise DamagedError("has a loss that is no number")
    return history


def read_warnings(folder: Path) -> list[str]:
    """What was warned of; empty where there is nothing."""
    messages = _read_list(folder / _WARNINGS)
    if not all(isinstance(message, str) for message in messages):
        raise DamagedError("has a warning that is no text")
    return messages


def read_templates(folder: Path) -> NDArray[Any] | None:
    """The learned templates ``(n_templates, k, k)``; None where there are none."""
    path = folder / _TEMPLATES
    if not path.exists():
        return None
    templates = read_arrays(path).get("templates", np.zeros(0))
    if templates.ndim != 3 or 0 in templates.shape or templates.shape[1] != templates.shape[2]:
        raise DamagedError(f"holds no templates of shape (n, k, k), but {templates.shape}")
    if max(templates.shape) > _MOST_TEMPLATES:
        raise DamagedError(f"claims {templates.shape[0]} templates of {templates.shape[1]} nodes")
    if templates.dtype.kind not in "fiub" or not np.isfinite(templates).all():
        raise DamagedError("holds templates that are no finite numbers")
    return templates


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` without pickles, every one read whole and held against its checksum."""
    try:
        if path.is_symlink() or not path.is_file():
            raise DamagedError("is not a file")
        with ZipFile(path) as archive:
            claimed = sum(member.file_size for member in archive.infolist())
        if claimed > _LARGEST_ARRAYS:
            raise DamagedError(f"claims to hold {claimed / 1e9:.0f} GB")
        with np.load(path, allow_pickle=False) as arrays:
            found = dict(arrays)
        if not all(
            isinstance(array, np.ndarray) for array in found.values()
        ):  # numpy hands other members over as bytes
            raise DamagedError("holds more than arrays")
        return found
    except DamagedError:
        raise
    except Exception as error:  # what zipfile and numpy raise over broken archives is not documented as a whole
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
