"""One file with all graphs: ``.npz`` and ``.mat`` with an array of graphs and arrays about their subjects."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.archive import read_archive
from isocapsnet.datasets.formats.matlab import find_stack, read_mat
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import COLUMN_OPTIONS, Findings, Reader, ReadOptions, apply_options, assemble
from isocapsnet.datasets.storage import FOLD, is_saved, list_folds

_LABELS = ("labels", "label", "y", "Y", "target", "diagnosis")
_SUBJECTS = ("subjects", "subject", "subject_ids", "ids", "participant_id")
_SITES = ("sites", "site")


def read_npz(path: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """An ``.npz`` that :meth:`BrainGraphs.save` wrote, or one with the arrays ``adjacency`` and ``labels``.

    Optional arrays: ``subjects``, ``sites``, ``node_names``, ``coordinates``, ``test_index_fold_1``...; every other
    array of one value per graph is a covariate.
    """
    arrays = read_archive(path, limit)
    if is_saved(arrays):
        saved = BrainGraphs.from_arrays(arrays, path.name)
        saved.digest()  # refuses a changed file here, not when the passport is first used
        return apply_options(saved, options, findings)
    if "adjacency" not in arrays:
        raise InputError(f"{path.name} has no array named adjacency; it has {', '.join(arrays) or 'no arrays'}.")
    return _assemble_stack(path, arrays["adjacency"], arrays, options, findings)


def read_mat_stack(path: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """Read a ``.mat`` with graphs stacked as nodes x nodes x subjects and the other variables of :func:`read_npz`."""
    variables = read_mat(path, limit)
    name, graphs = find_stack(path, variables)
    # MATLAB has no vectors: what is one value per subject there is a row or a column.
    flat = {
        key: value.reshape(-1) if value.ndim == 2 and 1 in value.shape else value
        for key, value in variables.items()
        if key != name
    }
    return _assemble_stack(path, graphs, flat, options, findings)


def _is_file(suffix: str) -> Callable[[Any], bool]:
    return lambda source: isinstance(source, Path) and source.suffix == suffix and source.is_file()


NPZ = Reader(_is_file(".npz"), read_npz, COLUMN_OPTIONS)
MAT = Reader(_is_file(".mat"), read_mat_stack, COLUMN_OPTIONS)


def _assemble_stack(
    path: Path, graphs: NDArray[Any], arrays: Mapping[str, NDArray[Any]], options: ReadOptions, findings: Findings
) -> BrainGraphs | None:
    if graphs.ndim != 3 or graphs.shape[1] != graphs.shape[2] or not graphs.size or graphs.dtype.kind not in "biuf":
        what = f"{graphs.dtype} of shape {graphs.shape}"
        raise InputError(f"{path.name} must hold numbers of shape (n_graphs, n_nodes, n_nodes), not {what}.")
    arrays = {key: _as_text(path, key, array) if array.dtype.kind == "S" else array for key, array in arrays.items()}
    columns = {key: values for key, values in arrays.items() if values.shape == (len(graphs),)}
    labels_key = _choose(path, columns, options.target, _LABELS)
    subjects_key = _choose(path, columns, None, _SUBJECTS)
    sites_key = _choose(path, columns, options.site, _SITES)
    special = {labels_key, subjects_key, sites_key, "node_names", *(key for key in columns if key.startswith(FOLD))}
    extra = {key: values for key, values in columns.items() if key not in special}
    if options.covariates is not None:
        extra = {key: columns[str(_choose(path, columns, key, ()))] for key in options.covariates}
    node_names = arrays.get("node_names")
    if node_names is not None and node_names.shape != graphs.shape[1:2]:
        raise InputError(f"{path.name}: node_names has shape {node_names.shape} instead of {graphs.shape[1:2]}.")
    subjects = [str(s) for s in (columns[subjects_key] if subjects_key else range(1, len(graphs) + 1))]
    return assemble(
        graphs,
        subjects,
        options,
        findings,
        sources=[f"{path.name}, subject {subject}" for subject in subjects],
        labels=columns[labels_key].tolist() if labels_key else None,
        sites=columns[sites_key].tolist() if sites_key else None,
        covariates=pd.DataFrame(extra) if extra else None,
        node_names=None if node_names is None else [[str(n).strip() for n in node_names.tolist()]] * len(graphs),
        coordinates=arrays.get("coordinates"),
        folds=list_folds(arrays, path.name),
        name=path.stem,
    )


def _as_text(path: Path, key: str, array: NDArray[Any]) -> NDArray[Any]:
    try:
        return np.char.decode(array, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name}: the texts of {key} are not UTF-8.") from error


def _choose(path: Path, columns: Mapping[str, NDArray[Any]], asked: str | None, usual: Sequence[str]) -> str | None:
    """The array that was asked for, else the first with one of the usual names."""
    if asked is not None and asked not in columns:
        names = list_some(columns) or "none"
        raise InputError(f"{path.name} has no array {asked!r} of one value per graph; it has {names}.")
    return asked or next((name for name in usual if name in columns), None)
