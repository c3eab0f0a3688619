"""Explanations of single fits on disk: one ``explanation.npz`` beside a benchmark record, or in a folder of its own."""

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
from isocapsnet.explanation.attribution import is_network
from isocapsnet.explanation.fits import FitExplanation, Templates, explain_fit
from isocapsnet.explanation.motifs import Motifs

EXPLANATION_FILE = "explanation.npz"

#: Arrays and their axes, named after the attributes of FitExplanation and Templates (whose ``matrices`` are called
#: ``templates`` here). C: classes, N: graphs, V: nodes, m: examples, r: features, c: templates, k: nodes of a template,
#: n: windows along a side, J: contrasts (1 for two classes, else C). Equal letters are equal lengths.
AXES = {
    "classes": "C", "positions": "N", "codes": "N", "edges": "VV", "randomization": "", "examples": "m",
    "example_graphs": "mVV",
}  # fmt: skip
#: Only for networks with a decoder or with ``transform``.
OPTIONAL_AXES = {"representation": "Nr", "example_reconstructions": "mVV"}
#: Only for isomorphic networks.
TEMPLATE_AXES = {
    "templates": "ckk", "stride": "", "template_evidence": "NJc", "region_evidence": "NJcV", "unattributed": "NJ",
    "window_separation": "cnn", "window_effect": "cnn", "window_influence": "cnn", "class_scores": "Ccnn",
    "orientation": "Ccnn", "orientation_share": "Ccnn",
}  # fmt: skip
#: Only for networks with a motif form whose weight is not 0, each with ``motif_`` before its name. f: forms, M: motifs,
#: q: nodes of a motif.
MOTIF_AXES = {
    "form_weights": "f", "logarithm": "", "learned": "Mqq", "patterns": "Mqq", "weights": "JM", "covariance": "MM",
    "thresholds": "M", "evidence": "NJM", "distances": "NM", "nodes": "NMq",
}  # fmt: skip
_MOTIF = "motif_"
# In files of earlier versions; nothing reads it.
_RETIRED = "class_evidence"
_NO_ORIENTATION = -1


def write_explanation(estimator: Any, graphs: ArrayLike, labels: ArrayLike, folder: str | Path) -> None:
    """Explain a network on held-out graphs and write ``explanation.npz`` into ``folder``.

    ``graphs`` and their ``labels`` were not used to train ``estimator``. Of other methods nothing is written.
    """
    if is_network(estimator):
        save_explanation(explain_fit(estimator, graphs, labels), folder)


def save_explanation(explanation: FitExplanation, folder: str | Path) -> Path:
    """Write ``explanation.npz``: the arrays of :data:`AXES` and, as far as there are any, of the other tables here."""
    parts = ("templates", "motifs")
    arrays = {name: value for name, value in vars(explanation).items() if value is not None and name not in parts}
    if explanation.templates is not None:
        arrays |= vars(explanation.templates)
        arrays["templates"] = arrays.pop("matrices")
    if explanation.motifs is not None:
        arrays |= {_MOTIF + name: value for name, value in vars(explanation.motifs).items()}
        arrays[_MOTIF + "logarithm"] = int(explanation.motifs.logarithm)
    path = Path(folder) / EXPLANATION_FILE
    np.savez_compressed(path, **arrays)
    return path


def read_explanation(folder: str | Path) -> FitExplanation:
    """Read the ``explanation.npz`` of ``folder``; its arrays are checked."""
    path = Path(folder) / EXPLANATION_FILE
    if not path.exists():
        raise InputError(f"{path} does not exist; run the benchmark again to write explanations.")
    try:
        arrays: dict[str, Any] = dict(read_arrays(path))
        arrays.pop(_RETIRED, None)
        _check_arrays(arrays)
    except DamagedError as error:
        raise InputError(f"{path} is damaged or was written by another version of isocapsnet: it {error}.") from error
    arrays["randomization"] = float(arrays["randomization"])
    templates = None
    if "templates" in arrays:
        arrays["stride"] = int(arrays["stride"])
        parts = {field.name: arrays.pop(field.name, None) for field in fields(Templates)}
        templates = Templates(**parts | {"matrices": arrays.pop("templates")})
    motifs = None
    if _MOTIF + "patterns" in arrays:
        own = {name: arrays.pop(_MOTIF + name) for name in MOTIF_AXES}
        motifs = Motifs(**own | {"logarithm": bool(own["logarithm"])})
    return FitExplanation(**arrays | {"templates": templates, "motifs": motifs})


def _check_arrays(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse missing and additional arrays, wrong shapes and types, infinite numbers and indices out of range."""
    axes = AXES | {name: letters for name, letters in OPTIONAL_AXES.items() if name in arrays}
    axes |= TEMPLATE_AXES if "templates" in arrays else {}
    has_motifs = _MOTIF + "patterns" in arrays
    axes |= {_MOTIF + name: letters for name, letters in MOTIF_AXES.items()} if has_motifs else {}
    if arrays.keys() != axes.keys():
        raise DamagedError(f"lacks or adds {sorted(arrays.keys() ^ axes.keys())[0][:60]!r}")
    lengths: dict[str, int] = {}
    for name, letters in axes.items():
        array = arrays[name]
        expected = [lengths.setdefault(letter, length) for letter, length in zip(letters, array.shape, strict=False)]
        if array.ndim != len(letters) or list(array.shape) != expected:
            raise DamagedError(f"has {name} of shape {array.shape}")
        # The scores of a class without graphs are NaN.
        is_number = array.dtype.kind in "fiu" and (name == "class_scores" or np.isfinite(array).all())
        if name != "classes" and not is_number:
            raise DamagedError(f"has {name} that are not finite numbers")
    n_contrasts = 1 if lengths["C"] == 2 else lengths["C"]
    if 0 in (lengths["N"], lengths["V"]) or lengths["C"] < 2 or lengths.get("J", n_contrasts) != n_contrasts:
        raise DamagedError("explains no graphs, or one class")
    limits = {"positions": (0, np.inf), "codes": (0, lengths["C"]), "examples": (0, lengths["N"])}
    if "templates" in arrays:
        stride, size = int(arrays["stride"]), lengths["k"]
        if stride < 1 or stride * (lengths["n"] - 1) + size > lengths["V"]:
            raise DamagedError(f"has windows outside of {lengths['V']} nodes")
        limits["orientation"] = (_NO_ORIENTATION, math.factorial(min(size, 20)))
    if has_motifs:
        limits |= {"motif_nodes": (0, lengths["V"]), "motif_logarithm": (0, 2)}
    if has_motifs and (lengths["f"] != 2 or 0 in (lengths["M"], lengths["q"])):
        raise DamagedError("has no motifs")
    for name, (low, end) in limits.items():
        values = arrays[name]
        if values.dtype.kind not in "iu" or (values.size and not (values.min() >= low and values.max() < end)):
            raise DamagedError(f"has {name} out of range")
