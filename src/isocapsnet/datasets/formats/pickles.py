"""The pickled folds that the paper's authors publish, read without running what a pickle could run.

A pickle is a program. Here every callable it may name is replaced by an inert stand-in that writes down its
arguments, and only numbers, texts, plain containers and numpy arrays of numbers or texts are then built, by our own
code. Anything else is refused, and nothing that the file names is ever imported or called.
"""

import io
import math
import pickle
import pickletools
import re
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import DTYPE, Parsed, ReadLimit, parse
from isocapsnet.datasets.reading import Reader, ReadOptions, assemble

# What numpy 1 and 2 write for arrays, dtypes and scalars, and what Python writes for bytes in old protocols. Some
# versions of numpy 1 name the module that is written in C, _multiarray_umath.
_STAND_INS = {
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("_codecs", "encode"): "encode",
    ("__builtin__", "bytes"): "empty bytes",
    ("builtins", "bytes"): "empty bytes",
    **{
        (f"numpy.{core}.{module}", name): name.strip("_")
        for core in ("core", "_core")
        for module, name in (
            ("multiarray", "_reconstruct"),
            ("_multiarray_umath", "_reconstruct"),
            ("multiarray", "scalar"),
            ("_multiarray_umath", "scalar"),
            ("numeric", "_frombuffer"),
        )
    },
}


class _Recipe:
    """A call that was written down instead of made."""

    __slots__ = ("arguments", "kind", "state")

    def __init__(self, kind: str, arguments: tuple[Any, ...]) -> None:
        self.kind = kind
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _StandIn:
    """What a pickle gets when it asks for a callable."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, *arguments: Any) -> _Recipe:
        return _Recipe(self.kind, arguments)

    def __setstate__(self, state: Any) -> NoReturn:
        raise pickle.UnpicklingError("it tries to change a function")


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> _StandIn:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _StandIn(_STAND_INS[module, name])


def load_pickle(path: Path, start: int = 0) -> Any:
    """Read a pickle of numbers, texts, plain containers and numpy arrays, from byte ``start``; refuse any other."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read()
        _check_program(content)
        return _Builder().build(_InertUnpickler(io.BytesIO(content), encoding="latin1").load())
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a hostile pickle can raise anything
        raise InputError(
            f"{path.name} is refused: a pickle may hold only numbers, texts, lists, dicts and numpy arrays, "
            f"and {error if isinstance(error, pickle.UnpicklingError) else 'this one is damaged or malicious'}."
        ) from error


def _check_program(content: bytes) -> None:
    """Refuse what no pickler writes and bombs are made of: copies of the stack's top, memo slots out of sequence."""
    for step, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        if opcode.name == "DUP" or (opcode.name.endswith("PUT") and int(argument or 0) > step):
            raise pickle.UnpicklingError(f"it uses {opcode.name} as no pickler does")


class _Builder:
    """Turns what the unpickler wrote down into data."""

    def __init__(self) -> None:
        self._built: dict[int, Any] = {}

    def build(self, item: Any) -> Any:
        # Shared parts are built once, so that a small file cannot describe a structure of exponential size.
        if id(item) not in self._built:
            self._built[id(item)] = (item, self._build(item))
        return self._built[id(item)][1]

    def _build(self, item: Any) -> Any:
        if item is None or isinstance(item, bool | int | float | str | bytes | bytearray):
            return item
        if isinstance(item, list | tuple | set | frozenset):
            return type(item)(self.build(part) for part in item)
        if isinstance(item, dict):
            return {self.build(key): self.build(value) for key, value in item.items()}
        if isinstance(item, _Recipe):
            if item.kind == "empty bytes" and item.arguments == ():
                return b""
            if item.kind == "encode":
                text, encoding = item.arguments
                if encoding not in ("latin1", "latin-1"):
                    raise pickle.UnpicklingError(f"it uses the encoding {encoding!r}")
                return text.encode("latin-1")
            if item.kind == "reconstruct":
                _, shape, dtype, is_fortran, values = item.state
                return self._array(values, dtype, shape, "F" if is_fortran else "C")
            if item.kind == "frombuffer":
                return self._array(*item.arguments)
            if item.kind == "scalar":
                return self._array(item.arguments[1], item.arguments[0], (), "C")[()]
        raise pickle.UnpicklingError("it uses numpy in a way that is not understood")

    def _array(self, values: Any, dtype: _Recipe, shape: tuple[int, ...], order: str) -> Any:
        code = str(dtype.arguments[0])
        byte_order, *fields = dtype.state[1:5] if dtype.state else ("=", None, None, None)
        if (
            dtype.kind != "dtype"
            or not re.fullmatch(r"[biufSUO][1-9]\d{0,5}", code)
            or any(part is not None for part in fields)
        ):
            raise pickle.UnpicklingError(f"it holds an array of type {code!r}")
        if code.startswith("O"):
            if not isinstance(values, list) or len(shape) > 1 or len(values) != math.prod(shape):
                raise pickle.UnpicklingError("it holds an array of objects")
            return self.build(values) if shape else self.build(values[0])
        content = self.build(values)
        content = content.encode("latin-1") if isinstance(content, str) else bytes(content)
        kind = np.dtype(f"{byte_order if byte_order in ('<', '>') else '='}{code}")
        return np.ndarray(shape, dtype=kind, buffer=content, order="F" if order == "F" else "C")


def _find_folds(source: Any) -> list[Path]:
    """The files ``fold_1``, ``fold_2``... of a folder in order, or one such file."""
    if not isinstance(source, Path):
        return []
    if source.is_dir():
        return [path for number in range(1, 100) if (path := source / f"fold_{number}").is_file()]
    return [source] if source.name.startswith("fold_") and source.exists() else []


def read_folds(source: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """Read folds ``{"train": {"X": graphs, "y": labels}, "test": ...}`` that split the same subjects.

    The subjects are the test parts one after the other; a training subject that no fold tests comes last.
    """
    paths = _find_folds(source)
    graphs: list[NDArray[Any]] = []
    labels: list[Any] = []
    folds: list[NDArray[Any]] = []
    training: list[list[tuple[NDArray[Any], Any]]] = []
    for path in paths:
        arrays, classes = parse(parse_fold, path, limit)
        folds.append(np.arange(len(graphs), len(graphs) + len(classes["test"])))
        graphs += [arrays[f"test/{i}"] for i in range(len(classes["test"]))]
        labels += classes["test"]
        training.append([(arrays[f"train/{i}"], label) for i, label in enumerate(classes["train"])])
    counts = Counter(map(_key, graphs, labels))
    for path, tested, pairs in zip(paths, folds, training, strict=True):
        seen = Counter(_key(graphs[i], labels[i]) for i in tested)
        for graph, label in pairs:
            key = _key(graph, label)
            seen[key] += 1
            if seen[key] > counts[key]:
                counts[key] += 1
                graphs.append(graph)
                labels.append(label)
                findings.handle("training subjects that no fold tests", path.name)
    return assemble(
        graphs,
        [str(i + 1) for i in range(len(graphs))],
        options,
        findings,
        sources=[f"graph {i}" for i in range(len(graphs))],
        labels=labels,
        folds=folds,
        name=source.stem,
    )


READER = Reader(lambda source: bool(_find_folds(source)), read_folds)


def read_pickled_arrays(path: Path, limit: ReadLimit) -> tuple[dict[str, NDArray[Any]], dict[str, list[NDArray[Any]]]]:
    """Arrays, and lists of matrices, of an ``.npy`` with a dictionary or a list, by name; a list is ``adjacency``."""
    limit.check(path.stat().st_size, path.name)
    parsed, facts = parse(parse_pickled_npy, path, limit)
    lists = {key: [parsed.pop(f"{key}/{i}") for i in range(count)] for key, count in facts["lists"].items()}
    return parsed, lists


def parse_pickled_npy(path: Path, limit: ReadLimit) -> Parsed:
    """The arrays of an ``.npy`` of pickled objects; matrices of lists are named ``key/0``...; runs isolated."""
    content = load_pickle(path, _header_bytes(path))
    if isinstance(content, list):
        content = {"adjacency": content}
    if not isinstance(content, dict):
        raise InputError(f"{path.name} has a pickled {type(content).__name__}; a dictionary of arrays is needed.")
    arrays: dict[str, NDArray[Any]] = {}
    lists: dict[str, int] = {}
    for key, value in content.items():
        if isinstance(value, list) and value and all(isinstance(v, np.ndarray) and v.ndim == 2 for v in value):
            if len({matrix.shape for matrix in value}) > 1:
                arrays |= {f"{key}/{i}": matrix for i, matrix in enumerate(value)}
                lists[str(key)] = len(value)
                continue
            value = np.stack(value)
        try:
            array = np.asarray(value)
        except ValueError:  # lists of different lengths
            continue
        if DTYPE.fullmatch(array.dtype.str):
            arrays[str(key)] = array
    if not all(DTYPE.fullmatch(array.dtype.str) for array in arrays.values()):
        raise InputError(f"{path.name} has matrices that are not numbers.")
    return arrays, {"lists": lists}


def _header_bytes(path: Path) -> int:
    """The length of the header of an ``.npy``."""
    with path.open("rb") as file:
        start = file.read(12)
    if start[:6] != b"\x93NUMPY" or len(start) < 12:
        raise InputError(f"{path.name} is not a numpy array; it is damaged or incomplete.")
    return 10 + int.from_bytes(start[8:10], "little") if start[6] == 1 else 12 + int.from_bytes(start[8:12], "little")


def _key(graph: NDArray[Any], label: Any) -> tuple[bytes, str]:
    return graph.tobytes(), str(label)


def parse_fold(path: Path, limit: ReadLimit) -> Parsed:
    """The graphs of a fold, named ``train/0``..., and the labels of both parts; runs in the isolated process."""
    content = load_pickle(path)
    arrays: dict[str, NDArray[Any]] = {}
    labels: dict[str, list[Any]] = {}
    for part in ("train", "test"):
        try:
            graphs = [np.asarray(graph) for graph in content[part]["X"]]
            labels[part] = np.asarray(content[part]["y"]).ravel().tolist()
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise InputError(f'{path.name} has no part "{part}" with graphs "X" and labels "y".') from error
        if len(graphs) != len(labels[part]):
            raise InputError(f"{path.name} has {len(graphs)} graphs but {len(labels[part])} labels in its {part} part.")
        if not all(isinstance(label, bool | int | float | str) for label in labels[part]):
            raise InputError(f"{path.name} has a label in its {part} part that is neither a number nor a text.")
        for i, graph in enumerate(graphs):
            n_nodes = math.isqrt(graph.size)
            if n_nodes == 0 or n_nodes * n_nodes != graph.size or graph.dtype.kind not in "biuf":
                what = f"a graph of shape {graph.shape} and type {graph.dtype}"
                raise InputError(f"{path.name} holds {what}; it must be square.")
            arrays[f"{part}/{i}"] = graph.reshape(n_nodes, n_nodes)
    return arrays, labels
