"""The checks of each field of :class:`~isocapsnet.datasets.graphs.BrainGraphs`, labels as researchers write them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from isocapsnet._validation import InputError

#: Texts that mean a missing value, in lower case.
MISSING = frozenset({"", "n/a", "na", "nan", "none", "null", "<na>", "#n/a"})
#: Numbers that mean a missing value in many tables.
MISSING_CODES = (-99.0, -999.0, -9999.0)
# Names that are hardly those of classes: codes, errors of spreadsheets, punctuation, words for a missing value.
_NO_CLASS = re.compile(
    r"-9+|#.*[!?]|[?.*_]+|[-\u2013\u2014]+|n\.\s?a\.?|unknown|missing|pending|withheld|not available", re.IGNORECASE
)
# Whole numbers that a float holds exactly.
_WHOLE = re.compile(r"[-+]?\d{1,15}(\.0*)?")
#: Words of a column's name, of which one says what the column is, and others that may stand beside it. Any other word
#: gives the column another meaning: an age at onset, for example, is known of patients only.
_USUAL = (
    ({"age"}, {"at", "baseline", "days", "in", "months", "mri", "of", "scan", "subject", "visit", "years", "yrs"}),
    ({"sex", "gender"}, {"at", "birth", "of", "subject"}),
    (
        {"motion", "movement", "fd", "meanfd", "fdmean", "framewise", "displacement"},
        {"absolute", "average", "avg", "func", "head", "jenkinson", "max", "mean", "median", "mm", "power", "relative"}
        | {"rest", "rms", "run", "scan"},
    ),
)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def count_graphs(graphs: NDArray[Any] | None, series: Sequence[NDArray[Any]] | None) -> int:
    """The number of graphs, time series or both, which must agree."""
    if graphs is None and series is None:
        raise InputError("A dataset needs graphs or time series; neither was given.")
    if graphs is not None and series is not None:
        if len(series) != len(graphs):
            raise InputError(f"There are {len(graphs)} graphs but {len(series)} time series.")
        if series[0].shape[1] != graphs.shape[1]:
            raise InputError(f"Graphs have {graphs.shape[1]} nodes but time series have {series[0].shape[1]}.")
    return len(graphs) if graphs is not None else len(series or ())


def check_texts(name: str, values: Any, n_graphs: int) -> NDArray[np.str_]:
    """One text per graph."""
    texts = np.array([str(value) for value in values], dtype=np.str_)
    if len(texts) != n_graphs:
        raise InputError(f"There are {n_graphs} graphs but {len(texts)} {name}.")
    return read_only(texts)


def check_subjects(values: Any, n_graphs: int) -> NDArray[np.str_]:
    """One identifier per graph, all different."""
    subjects = check_texts("subjects", values, n_graphs)
    names, counts = np.unique(subjects, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"Subject '{names[counts.argmax()]}' occurs {counts.max()} times; subjects must be unique.")
    return subjects


def check_series(time_series: Sequence[ArrayLike], n_nodes: int | None = None) -> tuple[NDArray[Any], ...]:
    """Finite time series (n_timepoints, n_nodes) of the same nodes."""
    series = tuple(read_only(np.asarray(one)) for one in time_series)
    if not series:
        raise InputError("There are no time series.")
    n_nodes = series[0].shape[-1] if n_nodes is None and series[0].ndim else n_nodes
    for number, one in enumerate(series):
        if one.ndim != 2 or one.dtype.kind not in "fiu" or len(one) < 2 or one.shape[1] != n_nodes:
            raise InputError(
                f"Time series {number} has shape {one.shape} and type {one.dtype}; "
                f"each must hold numbers of shape (n_timepoints, {n_nodes}) with two time points or more."
            )
        if not np.isfinite(one).all():
            raise InputError(f"Time series {number} has missing or infinite values; replace them or leave it out.")
    return series


def check_codes(
    labels: Any, label_names: Sequence[str] | None, n_graphs: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Codes of the classes and their names."""
    if labels is None:
        return np.full(n_graphs, -1, dtype=np.int64), ()
    values = _one_per_graph(labels)
    if len(values) != n_graphs:
        raise InputError(f"There are {n_graphs} graphs but {len(values)} labels.")
    if label_names is None:
        return encode_labels(values)
    codes = np.asarray(labels)
    is_index = codes.ndim == 1 and codes.dtype.kind in "iu"
    if not is_index or not all(-1 <= code < len(label_names) for code in np.unique(codes).tolist()):
        raise InputError(f"Labels must be -1 or indices into the {len(label_names)} label names.")
    names = tuple(map(str, label_names))
    if len(set(names)) < len(names):
        raise InputError(f"The label names {', '.join(names[:8])} are not all different.")
    return codes.astype(np.int64), names


def check_covariates(covariates: pd.DataFrame, identifiers: NDArray[np.str_]) -> pd.DataFrame:
    """Covariates as numbers or texts, indexed by subject."""
    if len(covariates) != len(identifiers):
        raise InputError(f"There are {len(identifiers)} graphs but {len(covariates)} rows of covariates.")
    frame = covariates.copy()
    frame.columns = frame.columns.map(str)
    frame.index = pd.Index(identifiers, name="subject")
    for column in frame:
        if frame[column].dtype.kind in "biuf":
            frame[column] = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            frame[column] = frame[column].fillna("").astype(str)
    return frame


def check_fold(number: int, fold: ArrayLike, n_graphs: int) -> NDArray[np.int64]:
    """Indices of test graphs, each once."""
    index = np.array(fold)
    if index.ndim != 1 or index.dtype.kind not in "iu" or len(np.unique(index)) != len(index):
        raise InputError(f"Fold {number} must list each of its test graphs once, by index.")
    outside = index[(index < 0) | (index >= n_graphs)]
    if len(outside):
        raise InputError(f"Fold {number} names graph {outside[0]}, but there are {n_graphs} graphs, counted from 0.")
    return read_only(index.astype(np.int64))


def select_folds(folds: Sequence[NDArray[Any]], index: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Folds after a selection of graphs: the new indices of the test graphs that remain."""
    position = {old: new for new, old in enumerate(index.tolist())}
    return [np.array([position[i] for i in fold.tolist() if i in position], dtype=np.int64) for fold in folds]


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, pandas' NA, or a text such as "n/a"."""
    return bool(pd.isna(value)) or str(value).strip().lower() in MISSING


def is_usual_confound(column: str) -> bool:
    """Whether the name of a column says that it is age, sex or head motion: ``AGE_AT_SCAN``, ``Gender``, ``meanFD``."""
    words = set(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", column))
    lower = {word.lower() for word in words}
    return any(lower & names and lower <= names | beside for names, beside in _USUAL)


def missing_words(values: Sequence[Any]) -> "Counter[str]":
    """How often which word other than n/a says that a value is missing; a class may have such a name, as "none"."""
    words = [value.strip() for value in values if isinstance(value, str) and is_missing(value)]
    return Counter(word for word in words if word.lower() not in ("", "n/a"))


def find_spellings(names: Iterable[str]) -> tuple[str, str] | None:
    """Two names that differ only in capitals and spaces, so that they may be one."""
    spellings: dict[str, str] = {}
    for name in names:
        if (other := spellings.setdefault(" ".join(name.casefold().split()), name)) != name:
            return other, name
    return None


def check_sites(names: Iterable[str], remedy: str = "write one of them") -> None:
    """Refuse two spellings of a site."""
    if (two := find_spellings(names)) is not None:
        raise InputError(f"{two[0]!r} and {two[1]!r} may be one site; {remedy}.")


def decode(value: Any) -> Any:
    """Bytes, as HDF5 and numpy have texts, as text in UTF-8; other values as they are."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _one_per_graph(labels: Any) -> NDArray[np.object_]:
    """Labels as a list of single values; a column ``(n_graphs, 1)`` is taken as one, and lists in it are refused."""
    values = np.asarray(labels, dtype=object)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise InputError(f"The labels have the shape {values.shape}; give one label per graph.")
    several = [index for index, value in enumerate(values) if np.ndim(value) or isinstance(value, Mapping | Set)]
    if several:
        raise InputError(f"The label of graph {several[0]} is {values[several[0]]!r}; give one label per graph.")
    return np.array([decode(value) for value in values], dtype=object)


def encode_labels(values: Any) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return ``(codes, names)``: per value the index of its name, -1 where it is missing.

    Names are in the order of the values: numbers by size, even if written as text; other texts alphabetically. Numbers
    that look like a measurement, and texts that differ for nearly all subjects, are refused.
    """
    names = [None if is_missing(value) else _name(value) for value in _one_per_graph(values)]
    counts = Counter(name for name in names if name is not None)
    _check_classes(counts)
    distinct = sorted(counts, key=_sort_key)
    index = {name: code for code, name in enumerate(distinct)}
    return np.array([-1 if name is None else index[name] for name in names], dtype=np.int64), tuple(distinct)


def _check_classes(counts: Counter[str]) -> None:
    """Refuse values that differ for nearly all subjects, or that look like a measurement."""
    n_values, n_labels = len(counts), counts.total()
    # Decimal commas are understood here too, although names with a comma are not changed.
    numbers = {name: number for name in counts if (number := _as_number(name.replace(",", ".", 1))) is not None}
    fraction = next((name for name, number in numbers.items() if not number.is_integer()), None)
    are_numbers = len(numbers) == n_values
    is_spread = are_numbers and (n_values > 20 or (n_values > 10 and min(counts.values()) < 3))
    if fraction is not None or is_spread or (are_numbers and n_values > 4 and 2 * n_values > n_labels):
        first = "" if fraction is None else f", such as {fraction}"
        raise InputError(
            f"The target has {n_values} different numbers for {n_labels} subjects{first}; it looks continuous, and "
            "regression is not supported. Choose a column of classes, or write names instead of numbers."
        )
    # A minus beside a plus is a class, as of carriers.
    if odd := next(
        (name for name in counts if _NO_CLASS.fullmatch(name) and not (name == "-" and "+" in counts)), None
    ):
        raise InputError(
            f"The target has the value {odd!r} for {counts[odd]} subject(s), which may mean that it is missing; write "
            "n/a, leave these subjects out with where=, or give the class another name."
        )
    if {*counts} == {str(code) for code in range(-1, n_values - 1)} and n_values > 2:
        codes = ", ".join(sorted(counts, key=_sort_key))
        raise InputError(
            f"The target has the values {codes}; -1 may mean a missing label, as in BrainGraphs.labels; write n/a "
            "if it does, or names instead of numbers."
        )
    if (two := find_spellings(counts)) is not None:
        raise InputError(f"The target has the values {two[0]!r} and {two[1]!r}, which may be one class; write one.")
    if n_values > max(10, n_labels // 2):
        raise InputError(f"The target has {n_values} different values for {n_labels} subjects; choose classes.")


def _as_number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)  # Python reads 1_1 as 11
    except ValueError:
        return None


def _name(value: Any) -> str:
    text = str(value).strip()
    return str(int(float(text))) if _WHOLE.fullmatch(text) else text


def _sort_key(name: str) -> tuple[bool, float, str]:
    number = _as_number(name)
    return (number is None, number or 0.0, name)
