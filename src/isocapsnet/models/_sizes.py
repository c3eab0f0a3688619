"""Smaller model files: without the decoder, and with weights in half precision."""

from contextlib import suppress
from copy import copy, deepcopy
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._validation import InputError
from isocapsnet.models._base import GraphClassifier
from isocapsnet.nn.motifs import MOTIF_WINDOWS

_DECODER = "decoder."
#: Probabilities that differ by less are equal to three digits.
_EQUAL = 5e-4
# Smaller arrays keep their precision: they save nothing, and rounded templates may match another permutation.
_LEAST_SHARE = 0.01


def check_decoder(estimator: GraphClassifier) -> None:
    """Refuse ``decoder=False``, before the fit, for an estimator whose parameters give it no decoder."""
    is_alone = getattr(estimator, "windows", None) in MOTIF_WINDOWS  # the motif form without the capsules
    if is_alone or not hasattr(estimator, "reconstruct") or not getattr(estimator, "reconstruction_weight", 1):
        _refuse_decoder(estimator)


def _refuse_decoder(estimator: GraphClassifier) -> NoReturn:
    raise InputError(f"{type(estimator).__name__} has no decoder; leave out decoder=False.")


def without_decoder(
    estimator: GraphClassifier, values: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The state without the weights of the decoder."""
    kept = {name: array for name, array in arrays.items() if not name.startswith(_DECODER)}
    if len(kept) == len(arrays):
        _refuse_decoder(estimator)
    return values | {"decoder": False}, kept


def in_half_precision(
    estimator: GraphClassifier, values: dict[str, Any], arrays: dict[str, NDArray[Any]], graphs: ArrayLike | None
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays with large ones in half precision, and the types of these; refused if predictions change."""
    if graphs is None:
        raise InputError('precision="half" needs graphs= to compare predictions on, such as the training graphs.')
    n_values = sum(array.size for array in arrays.values())
    large = {name for name, array in arrays.items() if array.size >= _LEAST_SHARE * n_values}
    types = {name: array.dtype.str for name, array in arrays.items() if array.dtype.kind == "f" and name in large}
    with np.errstate(over="ignore"):
        stored = {name: array.astype(np.float16) if name in types else array for name, array in arrays.items()}
    rounded = copy(estimator)
    difference = np.inf
    with suppress(InputError):  # weights that are too large for half precision, or 0 where they must not be
        if all(np.isfinite(array).all() for array in stored.values()):
            rounded._set_state(deepcopy(values), in_full_precision(stored, types))
            difference = float(np.abs(rounded.predict_proba(graphs) - estimator.predict_proba(graphs)).max())
    if not difference < _EQUAL:
        raise InputError(
            f'precision="half" changes probabilities by up to {difference:.2g}, which shows in three digits; save the '
            'model with precision="full".'
        )
    return stored, types


def in_full_precision(arrays: dict[str, NDArray[Any]], types: Any) -> dict[str, NDArray[Any]]:
    """The arrays as a model has them; ``types`` are those of the arrays that are stored in half precision."""
    if not isinstance(types, dict) or not set(types.values()) <= {"<f4", "<f8"}:
        raise InputError("its types of arrays in half precision are not valid")
    for name in types:
        if name not in arrays or arrays[name].dtype != np.float16:
            raise InputError(f"array {name!r:.60} is not in half precision")
    return {name: array.astype(types[name]) if name in types else array for name, array in arrays.items()}
