"""Explanations on disk: one ``explanation.npz`` beside a benchmark record."""

import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike

from isocapsnet._validation import InputError
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
    """What :func:`write_explanation` wrote into ``folder``."""
    path = Path(folder) / EXPLANATION_FILE
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays: dict[str, Any] = dict(archive)
        arrays["randomization"] = float(arrays["randomization"])
        templates = None
        if "templates" in arrays:
            arrays["stride"] = int(arrays["stride"])
            parts = {field.name: arrays.pop(field.name, None) for field in fields(Templates)}
            templates = Templates(**parts | {"matrices": arrays["templates"]})
        return Explanation(**arrays | {"templates": templates})
    except FileNotFoundError as error:
        raise InputError(f"There is no {path}; run the benchmark again to write explanations.") from error
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is damaged or of another version of isocapsnet ({error}).") from error
