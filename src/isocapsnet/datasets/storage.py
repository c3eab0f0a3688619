"""BrainGraphs as named arrays of numbers and texts, and back: what is in the ``.npz``."""

import json
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import Atlas

if TYPE_CHECKING:
    from isocapsnet.datasets.graphs import BrainGraphs

_METADATA = "metadata"
_FORMAT = "isocapsnet-graphs-1"
_COVARIATE = "covariates/"
_NETWORKS = "networks/"
#: What the names of predefined test sets start with; their numbers follow.
FOLD = "test_index_fold_"


def to_arrays(data: "BrainGraphs") -> dict[str, NDArray[Any]]:
    """Everything that a dataset holds; what is not an array goes into ``metadata``, JSON as bytes."""
    arrays: dict[str, NDArray[Any]] = {"labels": data.labels, "subjects": data.subjects}
    if data.adjacency is not None:
        arrays["adjacency"] = data.adjacency
    if data.time_series is not None:
        arrays["time_series"] = np.concatenate(data.time_series)
        arrays["time_series_lengths"] = np.array([len(series) for series in data.time_series])
    if not np.array_equal(data.identifiers, data.subjects):
        arrays["identifiers"] = data.identifiers
    if data.sites is not None:
        arrays["sites"] = data.sites
    if (covariates := data.covariates) is not None:
        for column, values in covariates.items():
            dtype = np.float64 if values.dtype == np.float64 else np.str_
            arrays[f"{_COVARIATE}{column}"] = values.to_numpy(dtype)
    arrays |= {f"{FOLD}{i}": fold for i, fold in enumerate(data.folds, start=1)}
    if data.atlas is not None:
        arrays["node_names"] = np.array(data.atlas.node_names, dtype=np.str_)
        if data.atlas.coordinates is not None:
            arrays["coordinates"] = data.atlas.coordinates
        arrays |= {f"{_NETWORKS}{kind}": np.array(names) for kind, names in data.atlas.networks.items()}
    metadata = {
        "format": _FORMAT,
        "digest": data.digest(),
        "name": data.name,
        "label_names": data.label_names,
        "atlas": data.atlas and data.atlas.name,
        "exclusions": dict(data.exclusions),
        "handled": dict(data.handled),
    }
    return arrays | {_METADATA: np.frombuffer(json.dumps(metadata).encode(), dtype=np.uint8)}


def is_saved(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Whether these arrays were made by :func:`to_arrays`."""
    return _METADATA in arrays and _FORMAT.encode() in arrays[_METADATA].tobytes()


def from_arrays(arrays: Mapping[str, NDArray[Any]], where: str) -> tuple[dict[str, Any], str]:
    """The arguments of BrainGraphs and the digest that the data had when they were saved."""
    metadata = _read_metadata(arrays, where)
    columns = {k.removeprefix(_COVARIATE): v for k, v in arrays.items() if k.startswith(_COVARIATE)}
    networks = {name: array for name, array in arrays.items() if name.startswith(_NETWORKS)}
    lists = (
        {name: arrays.get(name) for name in ("labels", "subjects", "identifiers", "sites", "node_names")}
        | columns
        | networks
    )
    for name, array in lists.items():
        kinds = "iu" if name == "labels" else "Uf" if name in columns else "U"
        is_wrong = name in ("labels", "subjects") if array is None else array.ndim != 1 or array.dtype.kind not in kinds
        if is_wrong:
            raise InputError(f"{where} has no valid list {name}; convert the data again.")
    if len({len(array) for array in columns.values()}) > 1:
        raise InputError(f"{where} has covariates of different lengths; convert the data again.")
    names = arrays.get("node_names")
    arguments = {
        "adjacency": arrays.get("adjacency"),
        "labels": arrays["labels"],
        "label_names": metadata["label_names"],
        "subjects": arrays["subjects"],
        "identifiers": arrays.get("identifiers"),
        "sites": arrays.get("sites"),
        "covariates": pd.DataFrame(columns) if columns else None,
        "time_series": _split_series(arrays, where),
        "atlas": None
        if names is None
        else Atlas(
            names.tolist(),
            arrays.get("coordinates"),
            networks={name.removeprefix(_NETWORKS): array.tolist() for name, array in networks.items()},
            name=metadata["atlas"] or "",
        ),
        "folds": list_folds(arrays, where),
        "exclusions": metadata["exclusions"],
        "handled": metadata["handled"],
        "name": metadata["name"],
    }
    return arguments, metadata["digest"]


def _read_metadata(arrays: Mapping[str, NDArray[Any]], where: str) -> dict[str, Any]:
    try:
        metadata: dict[str, Any] = json.loads(arrays[_METADATA].tobytes())
        lists = [metadata["label_names"], [*metadata["exclusions"].values()], *metadata["handled"].values()]
        texts = [metadata["digest"], metadata["name"], metadata["atlas"] or "", *chain.from_iterable(lists)]
        if not all(isinstance(one, list) for one in lists) or not all(isinstance(text, str) for text in texts):
            raise TypeError("a part has another type")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"The metadata of {where} is damaged ({error}); convert the data again.") from error
    return metadata


def _split_series(arrays: Mapping[str, NDArray[Any]], where: str) -> list[NDArray[Any]] | None:
    """One time series per subject, of all of them one after another."""
    series, lengths = arrays.get("time_series"), arrays.get("time_series_lengths")
    if series is None:
        return None
    if series.ndim != 2 or lengths is None or lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not lengths.size:
        raise InputError(f"{where} does not say how long each time series is; convert the data again.")
    if lengths.min() < 0 or int(lengths.sum(dtype=object)) != len(series):
        raise InputError(f"{where} holds {len(series)} time points, which is not the sum of the series' lengths.")
    return np.split(series, np.cumsum(lengths)[:-1])


def list_folds(arrays: Mapping[str, NDArray[Any]], where: str) -> list[NDArray[Any]]:
    """The arrays ``test_index_fold_1``, ``test_index_fold_2``... in order."""
    folds = [arrays[key] for i in range(1, len(arrays) + 1) if (key := f"{FOLD}{i}") in arrays]
    for number, fold in enumerate(folds, start=1):
        if fold.ndim != 1 or fold.dtype.kind not in "iu":
            raise InputError(f"{where}: fold {number} must be a list of indices; it has shape {fold.shape}.")
    return folds
