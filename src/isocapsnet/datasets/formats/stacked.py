"""One file or object with all graphs: arrays of graphs, and arrays or a table about their subjects."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.archive import read_archive
from isocapsnet.datasets.fields import check_codes
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.joining import find_cohort
from isocapsnet.datasets.formats.matlab import read_mat
from isocapsnet.datasets.formats.npy import read_npy
from isocapsnet.datasets.formats.pickles import read_pickled_arrays
from isocapsnet.datasets.formats.regions import name_regions
from isocapsnet.datasets.formats.tables import as_text
from isocapsnet.datasets.formats.triangles import expand_rows
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import COLUMN_OPTIONS, TABLE_OPTIONS, Reader, ReadOptions, apply_options, assemble
from isocapsnet.datasets.storage import FOLD, is_saved, list_folds

_OPTIONS = (*COLUMN_OPTIONS, *TABLE_OPTIONS, "array", "triangle", "regions", "max_missing", "index_base")
Arrays = Mapping[str, NDArray[Any]]
#: Graphs of different numbers of nodes.
Matrices = list[NDArray[Any]]


def read_npz(path: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """An ``.npz`` that :meth:`BrainGraphs.save` wrote, or one with an array of graphs (``adjacency`` or ``array``).

    Optional arrays: ``labels``, ``subjects``, ``sites``, ``node_names``, ``coordinates``, ``test_index_fold_1``...;
    every other array of one value per graph is a covariate.
    """
    arrays = read_archive(path, limit)
    if is_saved(arrays):
        saved = BrainGraphs.from_arrays(arrays, path.name)
        saved.digest()  # refuses a changed file here, not when the passport is first used
        if others := [name for name in options.given(_OPTIONS) if name not in COLUMN_OPTIONS]:
            raise InputError(f"{others[0]}= does not apply to {path.name}, which was converted before; leave it out.")
        return apply_options(saved, options, findings)
    return _read_arrays(path.name, path.stem, arrays, options, findings, limit)


def read_mat_stack(path: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """Read a ``.mat`` with graphs stacked as nodes x nodes x subjects and the other variables of :func:`read_npz`."""
    # MATLAB has no vectors: what is one value per subject there is a row or a column.
    arrays = {
        key: value.reshape(-1) if value.ndim == 2 and 1 in value.shape else value
        for key, value in read_mat(path, limit).items()
    }
    return _read_arrays(path.name, path.stem, arrays, options, findings, limit, is_last=True)


def read_npy_stack(path: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """An ``.npy`` with a stack or a list of graphs, or a dictionary of arrays as BrainNetworkTransformer ships it."""
    lists: dict[str, Matrices] = {}
    arrays: Arrays
    with path.open("rb") as file:
        is_pickled = b"|O" in file.read(128)
    if is_pickled:
        arrays, lists = read_pickled_arrays(path, limit)
    else:
        with path.open("rb") as file:
            arrays = {"adjacency": read_npy(file, path.stat().st_size, path.name, limit)}
        limit.take(arrays["adjacency"].nbytes, path.name)
    return _read_arrays(path.name, path.stem, arrays, options, findings, limit, lists=lists)


def read_objects(source: Any, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """Arrays in memory: graphs, ``(graphs, labels)``, or a mapping as an ``.npz`` has it."""
    if isinstance(source, tuple):
        graphs, labels = source
        codes, names = check_codes(labels, None, len(graphs))  # refuses labels that are not one per graph
        values = np.asarray(labels, dtype=object).reshape(-1)
        texts = [v if isinstance(v, str) else [*names, ""][code] for v, code in zip(values, codes, strict=True)]
        source = {"adjacency": graphs, "labels": np.array(texts)}
    elif not isinstance(source, Mapping):
        source = {"adjacency": source}
    arrays = {}
    for key, value in source.items():
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise InputError(f"The array {key!r} has rows of different lengths; give numbers or texts.") from error
        if array.dtype == object and array.ndim == 1 and not any(map(np.ndim, array)):  # gaps, or texts of pandas
            array = np.array([*map(as_text, array)])
        if array.dtype.kind not in "biufSU":
            raise InputError(f"The array {key!r} is {array.dtype} of shape {array.shape}; give numbers or texts.")
        arrays[str(key)] = array
    return _read_arrays("The data", "", arrays, options, findings, limit)


def _is_file(suffix: str) -> Callable[[Any], bool]:
    return lambda source: isinstance(source, Path) and source.suffix == suffix and source.is_file()


def _are_arrays(source: Any) -> bool:
    return isinstance(source, np.ndarray | Mapping) or (isinstance(source, tuple) and len(source) == 2)


NPZ = Reader(_is_file(".npz"), read_npz, _OPTIONS)
MAT = Reader(_is_file(".mat"), read_mat_stack, _OPTIONS)
NPY = Reader(_is_file(".npy"), read_npy_stack, _OPTIONS)
ARRAYS = Reader(_are_arrays, read_objects, _OPTIONS)


def _read_arrays(
    where: str,
    name: str,
    arrays: Arrays,
    options: ReadOptions,
    findings: Findings,
    limit: ReadLimit,
    *,
    lists: Mapping[str, Matrices] | None = None,
    is_last: bool = False,
) -> BrainGraphs | None:
    """The dataset that named arrays are; ``is_last`` says that subjects are along the last axis, as in MATLAB."""
    key = _find_graphs(where, arrays, lists or {}, options)
    graphs = _orient(where, key, arrays[key], options, findings, is_last) if key in arrays else (lists or {})[key]
    if options.array is not None:
        findings.handle(f"graphs from the array {key}", f"{len(graphs)} graphs")
    if isinstance(graphs, np.ndarray) and (not graphs.size or graphs.dtype.kind not in "biuf"):
        raise InputError(f"{where}: the array {key} is {graphs.dtype} of shape {graphs.shape}; graphs are numbers.")
    texts = {k: _as_text(where, k, a) if a.dtype.kind == "S" else a for k, a in arrays.items() if k != key}
    texts = {
        k: a.reshape(-1) if a.ndim == 2 and a.shape in ((len(graphs), 1), (1, len(graphs))) else a
        for k, a in texts.items()
    }
    plain = {k: a for k, a in texts.items() if not k.startswith(FOLD)}
    cohort = find_cohort(where, len(graphs), plain, options, findings, limit)
    node_names = texts.get("node_names")
    if node_names is not None and node_names.shape != graphs[0].shape[:1]:
        raise InputError(f"{where}: node_names has shape {node_names.shape} instead of {graphs[0].shape[:1]}.")
    sources = [f"{where}, subject {name}" for name in map(findings.name_of, cohort["subjects"])]
    nodes: dict[str, Any] = {}
    if node_names is not None:
        nodes["node_names"] = [[str(n).strip() for n in node_names.tolist()]] * len(graphs)
    if options.regions is not None:
        sizes = [len(graph) for graph in graphs]
        nodes = name_regions(options.regions, cohort["subjects"], sources, sizes, options, findings, limit)
        graphs = list(graphs)
    elif options.index_base is not None:
        raise InputError("index_base= applies to edge lists and to lists of regions only; leave it out.")
    return assemble(
        graphs,
        options=options,
        findings=findings,
        sources=sources,
        coordinates=texts.get("coordinates"),
        folds=list_folds(texts, where),
        name=name,
        **nodes,
        **cohort,
    )


def _find_graphs(where: str, arrays: Arrays, lists: Mapping[str, Matrices], options: ReadOptions) -> str:
    """The array of graphs: the one that was asked for, ``adjacency``, or the only one that can be."""
    if options.array is not None:
        if options.array not in arrays and options.array not in lists:
            raise InputError(f"{where} has no array {options.array!r}; it has {list_some([*arrays, *lists])}.")
        return options.array
    if "adjacency" in arrays:
        return "adjacency"
    stacks = [k for k, a in arrays.items() if a.dtype.kind in "biuf" and _square_axes(a.shape)] + list(lists)
    if len(stacks) != 1:
        listed = list_some([f"{key} {array.shape}" for key, array in arrays.items()] + list(lists)) or "no arrays"
        what = "several arrays that may be the graphs" if stacks else "no array of graphs that is called adjacency"
        names = " or ".join(f'array="{name}"' for name in stacks[:3]) or "array="
        raise InputError(f"{where} has {what}; it has {listed}. Choose one with {names}.")
    return stacks[0]


def _square_axes(shape: Sequence[int]) -> list[int]:
    """Axes along which subjects can be, if the two others are the nodes."""
    return [axis for axis in (0, 2) if len(shape) == 3 and shape[1] == shape[2 - axis] > 1]


def _orient(
    where: str, key: str, array: NDArray[Any], options: ReadOptions, findings: Findings, is_last: bool
) -> NDArray[Any]:
    """Graphs ``(n_graphs, n_nodes, n_nodes)``: rows are expanded, and the axis of the subjects is found."""
    if array.ndim == 2 and array.dtype.kind in "biuf" and (key == options.array or options.triangle is not None):
        graphs, _ = expand_rows(array, None, f"{where}: {key}", options, findings)
        return graphs
    axes = _square_axes(array.shape)
    if not axes:
        what = f"{array.dtype} of shape {array.shape}"
        raise InputError(f"{where}: {key} must hold numbers of shape (n_graphs, n_nodes, n_nodes), not {what}.")
    usual = 2 if is_last else 0
    axis = usual if usual in axes else axes[0]
    if len(axes) == 2 and array.shape[0] > 2 and not _is_symmetric(array, axis):
        raise InputError(
            f"{where}: {key} has shape {array.shape}, and its matrices are not symmetric, so it is not known which "
            "axis has the graphs; save one file per graph."
        )
    if axis == 0:
        return array
    if not is_last:
        findings.handle(f"graphs along the last axis of the array {key}", f"{array.shape[2]} graphs")
    return np.ascontiguousarray(np.moveaxis(array, 2, 0))


def _is_symmetric(array: NDArray[Any], axis: int) -> bool:
    stack = np.moveaxis(array, axis, 0)
    rounding = 1e-6 * float(np.nanmax(np.abs(stack), initial=0.0))
    return bool(np.allclose(stack, stack.swapaxes(1, 2), atol=rounding, equal_nan=True))


def _as_text(where: str, key: str, array: NDArray[Any]) -> NDArray[Any]:
    try:
        return np.char.decode(array, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: the texts of {key} are not UTF-8.") from error
