"""BrainGraphs as named arrays of numbers and texts, and back: what is in the ``.npz``."""

import json
from collections.abc import Mapping
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


def to_arrays(data: "BrainGraphs") -> dict[str, NDArray[Any]]:
    """Everything that a dataset holds; what is no array goes into ``metadata``, JSON as bytes."""
    arrays: dict[str, NDArray[Any]] = {"labels": data.labels, "subjects": data.subjects}
    if data.adjacency is not None:
        arrays["adjacency"] = data.adjacency
    if data.time_series is not None:
        arrays["time_series"] = np.concatenate(data.time_series)
        arrays["time_series_lengths"] = np.array([len(series) for series in data.time_series])
    if data.sites is not None:
        arrays["sites"] = data.sites
    if (covariates := data.covariates) is not None:
        for column, values in covariates.items():
            dtype = np.float64 if values.dtype == np.float64 else np.str_
            arrays[f"{_COVARIATE}{column}"] = values.to_numpy(dtype)
    arrays |= {f"test_index_fold_{i}": fold for i, fold in enumerate(data.folds, start=1)}
    if data.atlas is not None:
        arrays["node_names"] = np.array(data.atlas.node_names, dtype=np.str_)
        if data.atlas.coordinates is not None:
            arrays["coordinates"] = data.atlas.coordinates
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


def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> tuple[dict[str, Any], str]:
    """The arguments of BrainGraphs and the digest that the data had when they were saved."""
    try:
        metadata = json.loads(arrays[_METADATA].tobytes())
        columns = {k.removeprefix(_COVARIATE): v for k, v in arrays.items() if k.startswith(_COVARIATE)}
        series = atlas = None
        if "time_series" in arrays:
            series = np.split(arrays["time_series"], np.cumsum(arrays["time_series_lengths"])[:-1])
        if "node_names" in arrays:
            atlas = Atlas(arrays["node_names"].tolist(), arrays.get("coordinates"), name=metadata["atlas"])
        arguments = {
            "adjacency": arrays.get("adjacency"),
            "labels": arrays["labels"],
            "label_names": metadata["label_names"],
            "subjects": arrays["subjects"],
            "sites": arrays.get("sites"),
            "covariates": pd.DataFrame(columns) if columns else None,
            "time_series": series,
            "atlas": atlas,
            "folds": read_folds(arrays),
            "exclusions": metadata["exclusions"],
            "handled": metadata["handled"],
            "name": metadata["name"],
        }
        return arguments, metadata["digest"]
    except (KeyError, json.JSONDecodeError) as error:
        raise InputError(f"The file lacks a part that BrainGraphs.save writes ({error}); convert again.") from error


def read_folds(arrays: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """The arrays ``test_index_fold_1``, ``test_index_fold_2``... in order."""
    return [arrays[key] for i in range(1, len(arrays) + 1) if (key := f"test_index_fold_{i}") in arrays]
