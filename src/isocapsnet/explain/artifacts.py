"""Explanations on disk: one ``explanation.npz`` beside a benchmark record."""

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._files import DamagedError
from isocapsnet._validation import InputError
from isocapsnet.evaluation.artifacts import read_arrays
from isocapsnet.explain.attribution import is_network
from isocapsnet.explain.explanation import Explanation, Templates, explain

EXPLANATION_FILE = "explanation.npz"


def write_explanation(estimator: Any, graphs: ArrayLike, labels: ArrayLike, folder: str | Path) -> None:
    """Explain a network on held-out graphs and write ``explanation.npz`` into ``folder``; nothing for other methods.

    The file holds plain arrays, under the names of the attributes of
    :class:`~isocapsnet.explain.explanation.Explanation` and, for isomorphic networks, of
    :class:`~isocapsnet.explain.explanation.Templates` (whose ``matrices`` are called ``templates`` here). With
    C classes, J contrasts (1 for two classes, else C), c templates of k nodes, n windows along a side, V nodes and
    N graphs:

    ========================  ================  ===============================================================
    name                      shape             what
    ========================  ================  ===============================================================
    classes                   (C,) text         labels in the order of the codes
    positions                 (N,) int          which of the given graphs are explained (all, as a rule)
    codes                     (N,) int          class of each
    edges                     (V, V)            how much each edge separates the classes
    randomization             ()                rank correlation of attributions with an untrained network's
    representation            (N, size)         what ``transform`` returns, class capsules for capsule networks
    examples                  (m,) int          up to 6 graphs of each class, as indices into codes and positions
    example_graphs            (m, V, V)         in original units
    example_reconstructions   (m, V, V)         what the decoder makes of them, in original units
    templates                 (c, k, k)         in scaled units
    stride                    () int            window [s, t] begins at row s * stride, column t * stride
    template_evidence         (N, J, c)         contribution to the margin of the class scores
    region_evidence           (N, J, c, V)      the same over each node
    unattributed              (N, J)            the part of the margin that belongs to no window
    window_separation         (c, n, n)         mean evidence in the class minus in the rest
    window_effect             (c, n, n)         Cohen's d of the evidence
    window_influence          (c, n, n)         standard deviation of the evidence
    class_evidence            (C, c, n, n)      mean evidence over the graphs of a class
    class_scores              (C, c, n, n)      mean match score over the graphs of a class
    orientation               (C, c, n, n) int  most frequent permutation, of ``itertools.permutations(range(k))``
    orientation_share         (C, c, n, n)      part of the graphs in which it was found
    ========================  ================  ===============================================================

    A name is missing where there is nothing: no decoder, no representation, no templates.
    """
    if is_network(estimator):
        save_explanation(explain(estimator, graphs, labels), folder)


def save_explanation(explanation: Explanation, folder: str | Path) -> Path:
    """Write ``explanation.npz`` as in :func:`write_explanation`."""
    arrays = {name: value for name, value in vars(explanation).items() if value is not None and name != "templates"}
    if explanation.templates is not None:
        arrays |= vars(explanation.templates)
        arrays["templates"] = arrays.pop("matrices")
    path = Path(folder) / EXPLANATION_FILE
    np.savez_compressed(path, **arrays)
    return path


def read_explanation(folder: str | Path) -> Explanation:
    """What :func:`write_explanation` wrote into ``folder``, with the shapes that it says."""
    path = Path(folder) / EXPLANATION_FILE
    if not path.exists():
        raise InputError(f"There is no {path}; run the benchmark again to write explanations.")
    try:
        arrays: dict[str, Any] = dict(read_arrays(path))
        _check_arrays(arrays)
    except DamagedError as error:
        raise InputError(f"{path} is damaged or of another version of isocapsnet: it {error}.") from error
    arrays["randomization"] = float(arrays["randomization"])
    templates = None
    if "templates" in arrays:
        arrays["stride"] = int(arrays["stride"])
        parts = {field.name: arrays.pop(field.name, None) for field in fields(Templates)}
        templates = Templates(**parts | {"matrices": arrays.pop("templates")})
    return Explanation(**arrays | {"templates": templates})


#: Array to its axes, as in :func:`write_explanation`; an axis has the same length wherever it occurs.
_AXES = {
    "classes": "C", "positions": "N", "codes": "N", "edges": "VV", "randomization": "", "examples": "m",
    "example_graphs": "mVV",
}  # fmt: skip
_OPTIONAL_AXES = {"representation": "Nr", "example_reconstructions": "mVV"}
_TEMPLATE_AXES = {
    "templates": "ckk", "stride": "", "template_evidence": "NJc", "region_evidence": "NJcV", "unattributed": "NJ",
    "window_separation": "cnn", "window_effect": "cnn", "window_influence": "cnn", "class_evidence": "Ccnn",
    "class_scores": "Ccnn", "orientation": "Ccnn", "orientation_share": "Ccnn",
}  # fmt: skip
# Not a number, and -1, where a class has no graphs.
_OF_A_CLASS = ("class_evidence", "class_scores")
_NO_ORIENTATION = -1


def _check_arrays(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse arrays that are missing, unknown, of another shape or type, not finite, or indices into nothing."""
    axes = _AXES | {name: kind for name, kind in _OPTIONAL_AXES.items() if name in arrays}
    axes |= _TEMPLATE_AXES if "templates" in arrays else {}
    if arrays.keys() != axes.keys():
        raise DamagedError(f"lacks or adds {sorted(arrays.keys() ^ axes.keys())[0][:60]!r}")
    lengths: dict[str, int] = {}
    for name, letters in axes.items():
        array = arrays[name]
        known = [lengths.setdefault(letter, length) for letter, length in zip(letters, array.shape, strict=False)]
        if array.ndim != len(letters) or list(array.shape) != known:
            raise DamagedError(f"has {name} of shape {array.shape}")
        is_number = array.dtype.kind in "fiu" and (name in _OF_A_CLASS or np.isfinite(array).all())
        if name != "classes" and not is_number:
            raise DamagedError(f"has {name} that are no finite numbers")
    n_contrasts = 1 if lengths["C"] == 2 else lengths["C"]
    if 0 in (lengths["N"], lengths["V"]) or lengths["C"] < 2 or lengths.get("J", n_contrasts) != n_contrasts:
        raise DamagedError("explains no graphs, or one class")
    limits: dict[str, tuple[int, float]] = {
        "positions": (0, np.inf),
        "codes": (0, lengths["C"]),
        "examples": (0, lengths["N"]),
    }
    if "templates" in arrays:
        stride, size = int(arrays["stride"]), lengths["k"]
        if stride < 1 or stride * (lengths["n"] - 1) + size > lengths["V"]:
            raise DamagedError(f"has windows that {lengths['V']} nodes do not have")
        limits["orientation"] = (_NO_ORIENTATION, math.factorial(min(size, 20)))
    for name, (low, above) in limits.items():
        values = arrays[name]
        if values.dtype.kind not in "iu" or (values.size and not (values.min() >= low and values.max() < above)):
            raise DamagedError(f"has {name} that point to nothing")
