"""What stands beside a record for the report: history, templates, warnings, the model, what explains it."""

import json
import pkgutil
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

MODEL_FILE = "model.safetensors"


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
    partial.mkdir(parents=True)
    if explain is not None and held_out is not None:
        try:
            pkgutil.resolve_name(explain)(estimator, *held_out, partial)
        except Exception as error:
            messages.append(f"There is no explanation of this fit ({type(error).__name__}: {error})")
    if history is not None:
        (partial / "history.json").write_text(json.dumps([_scalars(epoch) for epoch in history]))
    if templates is not None:
        np.savez(partial / "templates.npz", templates=np.asarray(templates))
    if messages:
        (partial / "warnings.json").write_text(json.dumps(messages))
    if save_model is not None:
        pkgutil.resolve_name(save_model)(estimator, partial / MODEL_FILE)
    shutil.rmtree(folder, ignore_errors=True)
    if not any(partial.iterdir()):
        partial.rmdir()
        return
    folder.parent.mkdir(exist_ok=True)
    try:
        partial.replace(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(partial)  # another run of the same job was quicker, and its artifacts are as good


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
