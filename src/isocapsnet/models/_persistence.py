"""Fitted models on disk: one safetensors file whose header carries the rest as JSON; never a pickle."""

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from sklearn.utils.validation import check_is_fitted

import isocapsnet
from isocapsnet._validation import InputError
from isocapsnet.models import MODELS
from isocapsnet.models._base import GraphClassifier

_FORMAT = 1


def save_model(estimator: GraphClassifier, path: str | os.PathLike[str]) -> Path:
    """Write a fitted estimator of ``MODELS`` to one file; a file that is already there is replaced at once.

    The file holds the method's name, its parameters, ``classes_``, ``n_nodes_in_``, what was learned, and a
    digest of all of it. A parameter that JSON cannot hold (callbacks, say) is left out with a warning.
    """
    method = next((name for name, model in MODELS.items() if model is type(estimator)), None)
    if method is None:
        raise InputError(f"{type(estimator).__name__} cannot be saved: it is not one of {', '.join(MODELS)}.")
    check_is_fitted(estimator, "n_nodes_in_")
    values, arrays = estimator._get_state()
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    content = {
        "format": _FORMAT,
        "isocapsnet": isocapsnet.__version__,
        "method": method,
        "method_version": estimator.version,
        "parameters": _storable_parameters(estimator),
        "n_nodes": estimator.n_nodes_in_,
        "node_names": None if estimator.node_names_in_ is None else [*map(str, estimator.node_names_in_)],
        "directed": estimator.directed_in_,
        "classes": _encode_classes(estimator.classes_),
        "values": _encode(values),
    }
    header = {"isocapsnet": json.dumps(content, sort_keys=True), "sha256": _digest(content, arrays)}
    target = Path(path)
    partial = target.with_name(f"{target.name}.{uuid4().hex}.part")
    try:
        partial.write_bytes(save(arrays, header))
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"The model cannot be written to {target}: {error.strerror}.") from error
    return target


def load_model(path: str | os.PathLike[str]) -> GraphClassifier:
    """Read an estimator that :func:`save_model` wrote; its predictions are the saved one's, bit for bit."""
    header, arrays = _read(Path(path))
    try:
        content = json.loads(header["isocapsnet"])
        written_by, written_format = content["isocapsnet"], int(content["format"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a model that isocapsnet saved.") from error
    if written_format > _FORMAT:
        raise InputError(f"{path} was saved by isocapsnet {written_by}, which is newer; upgrade isocapsnet.")
    if header.get("sha256") != _digest(content, arrays):
        raise InputError(f"{path} is damaged: its content does not match its digest; save the model again.")
    model = MODELS.get(content["method"])
    if model is None or content["method_version"] > model.version:
        raise InputError(
            f"{path} holds {content['method']!r} of isocapsnet {written_by}, which isocapsnet "
            f"{isocapsnet.__version__} does not have; install that version."
        )
    if content["method_version"] < model.version:
        warnings.warn(
            f"{path} was saved before a fix to {content['method']!r} changed its results; fit it again.",
            stacklevel=2,
        )
    try:
        estimator = model(**_decode(content["parameters"]))
        estimator.n_nodes_in_ = content["n_nodes"]
        estimator.node_names_in_, estimator.directed_in_ = _decode_layout(content)
        estimator.classes_ = _decode_classes(content["classes"])
        estimator._set_state(_decode(content["values"]), arrays)
    except InputError:
        raise  # a package or a device that is not here: another version would not help
    except (TypeError, KeyError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{path} was saved by isocapsnet {written_by} and cannot be read by isocapsnet {isocapsnet.__version__} "
            f"({' '.join(str(error).split())}); install that version, or fit the model again."
        ) from error
    return estimator


def _read(path: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """The text header and the arrays of a safetensors file."""
    try:
        with safe_open(path, framework="np") as file:
            names = file.keys()
            return file.metadata() or {}, {name: np.array(file.get_tensor(name)) for name in names}
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist.") from error
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged, or is not a model that isocapsnet saved ({error}).") from error


def _digest(content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> str:
    """sha256 over the JSON content and every array with its name, type and shape."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _storable_parameters(estimator: GraphClassifier) -> Any:
    """The constructor's arguments that JSON can hold, encoded."""
    stored = {}
    for name, value in estimator.get_params(deep=False).items():
        try:
            _encode(value)
        except TypeError:
            warnings.warn(
                f"The parameter {name} of {type(estimator).__name__} cannot be stored and is left out; "
                "the loaded model has its default.",
                stacklevel=3,
            )
        else:
            stored[name] = value
    return _encode(stored)


def _encode(value: Any) -> Any:
    """JSON that keeps what plain JSON forgets: tuples stay tuples, and a mapping's keys keep their type."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_encode(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    raise TypeError(f"{type(value).__name__} is not JSON")


def _decode(value: Any) -> Any:
    """The inverse of ``_encode``."""
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if isinstance(value, dict) and "tuple" in value:
        return tuple(_decode(item) for item in value["tuple"])
    if isinstance(value, dict):
        return {_decode(key): _decode(item) for key, item in value["dict"]}
    return value


def _encode_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Labels and their type, so that a loaded model answers with the labels it was fitted to."""
    try:
        labels = _encode(classes.tolist())
    except TypeError as error:
        raise InputError(f"Labels of type {type(classes[0]).__name__} cannot be saved; use text or numbers.") from error
    return {"dtype": classes.dtype.str if classes.dtype.kind in "biufU" else "O", "labels": labels}


def _decode_classes(stored: dict[str, Any]) -> NDArray[Any]:
    return np.array(_decode(stored["labels"]), dtype=np.dtype(stored["dtype"]))


def _decode_layout(content: dict[str, Any]) -> tuple[list[str] | None, bool | None]:
    """Names of the nodes and whether edges are directed; older files do not say."""
    names, directed = content.get("node_names"), content.get("directed")
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not (names is None or (is_list and len(names) == content["n_nodes"])) or directed not in (None, True, False):
        raise ValueError("the names of its nodes do not fit")
    return names, directed
