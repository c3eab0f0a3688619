"""Explanations of fitted networks: templates, regions, stability and attribution of edges.

:func:`explain` explains a network from refits on folds; :func:`explain_fit` explains a single fit, and :func:`combine`
makes evidence cards from several of these. Names are imported on first use.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "EvidenceCard": "cards",
    "Explanation": "summary",
    "FitExplanation": "fits",
    "MotifCard": "cards",
    "attribute_edges": "attribution",
    "combine": "combination",
    "combine_motifs": "motif_cards",
    "explain": "summary",
    "explain_fit": "fits",
    "explain_refits": "fits",
    "randomization_check": "attribution",
    "read_explanation": "storage",
    "window_evidence": "windows",
    "write_explanation": "storage",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
