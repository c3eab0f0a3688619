"""Fitted models on disk: one safetensors file with JSON in its header; never a pickle."""

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import safe_open
from safetensors.numpy import save
from sklearn.utils.validation import check_is_fitted

import isocapsnet
from isocapsnet._files import write_whole
from isocapsnet._safe_text import printable
from isocapsnet._validation import InputError, check_number, check_option, check_target
from isocapsnet.models import MODELS
from isocapsnet.models._base import GraphClassifier
from isocapsnet.models._sizes import in_full_precision, in_half_precision, without_decoder

# Files that hold more than a model, or a smaller one, have format 2, so that earlier versions refuse them.
_FORMAT, _PLAIN_FORMAT = 2, 1
_PREPARATION = "preparation/"
#: Makes a model of an estimator and the values and arrays of its preparation.
Complete = Callable[[GraphClassifier, Any, dict[str, NDArray[Any]]], Any]
# Beyond what any graph or label has, and small enough to compute with.
_MAX_NODES = 1_000_000
_MAX_LABEL_BYTES = 100_000_000
# Error messages quote values of the file, which may be long.
_MAX_SENTENCE = 500


def save_model(
    estimator: GraphClassifier,
    path: str | os.PathLike[str],
    *,
    decoder: bool = True,
    precision: str = "full",
    graphs: ArrayLike | None = None,
    preparation: tuple[Any, Mapping[str, NDArray[Any]]] | None = None,
) -> Path:
    """Write a fitted estimator of ``MODELS`` to one file. An existing file is replaced atomically.

    The file has the name of the method, its parameters, ``classes_``, ``n_nodes_in_``, the fitted state, and a digest
    of all of these. Parameters that JSON cannot represent, such as callbacks, are left out with a warning.

    Without its ``decoder`` a model predicts the same, but does not reconstruct. With ``precision="half"`` weights are
    stored in half precision if the probabilities of ``graphs`` stay equal to three digits; otherwise it is refused.
    ``preparation`` has values and arrays of a preparation, which ``load_model`` hands to ``complete``.
    """
    check_option("precision", precision, ("full", "half"))
    method = next((name for name, model in MODELS.items() if model is type(estimator)), None)
    if method is None:
        raise InputError(f"{type(estimator).__name__} cannot be saved; only the methods in isocapsnet.MODELS can.")
    check_is_fitted(estimator, "n_nodes_in_")
    values, arrays = estimator._get_state()
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    if not decoder:
        values, arrays = without_decoder(estimator, values, arrays)
    half: dict[str, str] = {}
    if precision == "half":
        arrays, half = in_half_precision(estimator, values, arrays, graphs)
    content = {
        "format": _PLAIN_FORMAT if decoder and not half and preparation is None else _FORMAT,
        "isocapsnet": isocapsnet.__version__,
        "method": method,
        "method_version": estimator.version,
        "results_version": estimator.results_version,
        "parameters": _storable_parameters(estimator),
        "n_nodes": estimator.n_nodes_in_,
        "node_names": None if estimator.node_names_in_ is None else [*map(str, estimator.node_names_in_)],
        "directed": estimator.directed_in_,
        "classes": _encode_classes(estimator.classes_),
        "values": _encode(values),
        "input": estimator.input_range_,
        "card": estimator.card_,
        "calibrated": estimator.is_calibrated_,
    }
    if half:
        content["half"] = half
    if preparation is not None:
        content["preparation"] = _encode(preparation[0])
        arrays |= {_PREPARATION + name: np.asarray(array, order="C") for name, array in preparation[1].items()}
    header = {"isocapsnet": json.dumps(content, sort_keys=True), "sha256": _digest(content, arrays)}
    target = Path(path)
    check_target("The model", target)
    try:
        write_whole(target, save(arrays, header))
    except OSError as error:
        raise InputError(f"The model cannot be written to {target}: {error.strerror}.") from error
    return target


def load_model(path: str | os.PathLike[str], complete: Complete | None = None) -> Any:
    """Read an estimator written by :func:`save_model`. Its predictions equal those of the saved one, bit for bit.

    The file is not trusted. Names, parameters, types, shapes and numbers are checked before a model is built from them,
    and no more memory is allocated than its arrays need. Anything else raises InputError. ``complete(estimator, values,
    arrays)`` makes what is returned from the estimator and its preparation, whose values are None in a file without.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a file, so it is not a model that isocapsnet saved.")
    header, content, arrays = _read(path)
    try:
        if header.get("sha256") != _digest(content, arrays):
            raise InputError("it is damaged: its content does not match its digest; save the model again")
        own = {name: array for name, array in arrays.items() if not name.startswith(_PREPARATION)}
        others = {name.removeprefix(_PREPARATION): array for name, array in arrays.items() if name not in own}
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise InputError(f"array {name!r:.60} holds values that are not finite")
        estimator = _rebuild(path, content, in_full_precision(own, content.get("half", {})))
        values = _decode(content["preparation"]) if "preparation" in content else None
        if complete is None:
            if values is not None:
                raise InputError("it has a preparation; load it with isocapsnet.load_model")
            return estimator
        return complete(estimator, values, others)
    except InputError as error:
        raise InputError(f"{path} cannot be loaded: {printable(str(error).rstrip('.'), _MAX_SENTENCE)}.") from error
    except Exception as error:  # from the content of another version, or a forged one
        raise InputError(
            f"{path} was saved by isocapsnet {content['isocapsnet']} and cannot be read by isocapsnet "
            f"{isocapsnet.__version__} ({type(error).__name__}: {printable(error, 200)}); install that version, or fit "
            "the model again."
        ) from error


def _rebuild(path: Path, content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> GraphClassifier:
    """The estimator that a file describes."""
    method, version, n_nodes = content["method"], content["method_version"], content["n_nodes"]
    check_number("method_version", version, low=0, integer=True)
    check_number("n_nodes", n_nodes, low=1, high=_MAX_NODES, integer=True)
    model = MODELS.get(method) if isinstance(method, str) else None
    if model is None or version > model.version:
        raise InputError(
            f"it holds {method!r:.60} of isocapsnet {content['isocapsnet']}, which isocapsnet {isocapsnet.__version__} "
            "does not have; install that version"
        )
    estimator = model(**model.update_parameters(_decode(content["parameters"]), version))
    estimator._check_parameters(n_nodes)
    estimator.n_nodes_in_, estimator.classes_ = n_nodes, _decode_classes(content["classes"])
    estimator.node_names_in_, estimator.directed_in_ = _decode_layout(content)
    n_classes = len(estimator.classes_)
    if n_classes < model._min_classes or n_classes > (model._max_classes or n_classes):
        raise InputError(f"it has {n_classes} classes")
    estimator.input_range_, estimator.card_ = content.get("input"), content.get("card")
    if not isinstance(estimator.card_, dict | None):
        raise InputError("its card is not valid")
    estimator.is_calibrated_ = content.get("calibrated")
    if not isinstance(estimator.is_calibrated_, bool | None):
        raise InputError("calibrated is neither true nor false")
    estimator._set_state(_decode(content["values"]), arrays)
    results_version = content.get("results_version", version)
    check_number("results_version", results_version, low=0, integer=True)
    if version < (model._warned_before or model.version) or estimator._predicts_otherwise(results_version):
        warnings.warn(f"{path} was saved before a fix to {method!r} changed its results; fit it again.", stacklevel=3)
    return estimator


def _read(path: Path) -> tuple[dict[str, str], dict[str, Any], dict[str, NDArray[Any]]]:
    """Header, content and arrays of a safetensors file. Arrays are read only if the content is ours."""
    try:
        with safe_open(path, framework="np") as file:
            header = file.metadata() or {}
            content = _parse(path, header.get("isocapsnet", ""))
            return header, content, {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist.") from error
    except Exception as error:  # numpy lacks some of the types that safetensors has
        raise InputError(
            f"{path} is damaged, or is not a model that isocapsnet saved ({printable(error, 200)})."
        ) from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    """The content of the header, with a supported format."""
    try:
        content = json.loads(text)
        version, written_format = content["isocapsnet"], content["format"]
        if type(written_format) is not int or written_format < 1 or not re.fullmatch(r"[\w.+-]{1,40}", version):
            raise ValueError("neither format nor version")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a model that isocapsnet saved.") from error
    if written_format > _FORMAT:
        raise InputError(f"{path} was saved by isocapsnet {version}, which is newer; upgrade isocapsnet.")
    return content


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
    """JSON that preserves tuples and the types of keys.

    Arrays and ranges become lists.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return _encode(value.tolist())
    if isinstance(value, list | range):
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
    """Labels and their type, so that a loaded model predicts the labels it was fitted to."""
    try:
        labels = _encode(classes.tolist())
    except TypeError as error:
        raise InputError(f"Labels of type {type(classes[0]).__name__} cannot be saved; use text or numbers.") from error
    return {"dtype": classes.dtype.str if classes.dtype.kind in "biufU" else "O", "labels": labels}


def _decode_classes(stored: dict[str, Any]) -> NDArray[Any]:
    """The inverse of ``_encode_classes``. Labels must be sorted and unique, as after ``fit``."""
    labels, dtype = stored["labels"], np.dtype(stored["dtype"])
    scalars = all(isinstance(label, bool | int | float | str) for label in labels)
    if not scalars or dtype.kind not in "biufUO" or dtype.itemsize * len(labels) > _MAX_LABEL_BYTES:
        raise InputError("its classes are not labels")
    classes = np.array(labels, dtype=dtype)
    if not np.array_equal(np.unique(classes), classes) or classes.tolist() != labels:
        raise InputError("its classes are not sorted and unique")
    return classes


def _decode_layout(content: dict[str, Any]) -> tuple[list[str] | None, bool | None]:
    """Names of the nodes and whether edges are directed; None in older files."""
    names, directed = content.get("node_names"), content.get("directed")
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not (names is None or (is_list and len(names) == content["n_nodes"])) or directed not in (None, True, False):
        raise InputError("its node names or edge direction are not valid")
    return names, directed
