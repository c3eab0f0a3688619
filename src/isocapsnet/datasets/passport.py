"""Passports of datasets: a digest of the content, and what a reader of results must know about the data."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import iter_chunks

if TYPE_CHECKING:
    from isocapsnet.datasets.graphs import BrainGraphs

# 4 MB of float32: small enough for the processor's cache, so that the passes over one chunk cost one read.
_CHUNK_VALUES = 1_000_000
_LISTED = 8
# "3 subjects", "3 of 12 rows", "12 graphs of 6 people".
_COUNT = re.compile(r"\d+ ((\w+ )?of \d+ )?[a-z]+")


def make_passport(data: "BrainGraphs") -> dict[str, Any]:
    """Describe a dataset in JSON values, in one streaming pass over its graphs.

    The digest covers what a result can depend on: graphs, time series, labels with their names, subjects, sites,
    covariates and folds. It does not cover the data's name, its atlas or how the data were read.
    """
    digest = hashlib.sha256(_digest_header(data))
    passport: dict[str, Any] = {
        "name": data.name,
        "digest": "",
        "n_graphs": len(data),
        "n_nodes": data.n_nodes,
        "atlas": data.atlas and (data.atlas.name or "named nodes"),
        "classes": dict(zip(data.label_names, data.class_counts.tolist(), strict=True)),
        "n_unlabelled": int((~data.is_labelled).sum()),
        "sites": None if data.sites is None else dict(sorted(Counter(data.sites.tolist()).items())),
        "covariates": [] if data.covariates is None else list(data.covariates.columns),
        "n_folds": len(data.folds),
        "graphs": None if data.adjacency is None else _scan_graphs(data.adjacency, digest),
        "time_series": None if data.time_series is None else _scan_series(data.time_series, digest),
        "exclusions": dict(data.exclusions),
        "handled": {what: list(where) for what, where in data.handled.items()},
    }
    passport["digest"] = f"sha256:{digest.hexdigest()}"
    return passport


def format_passport(passport: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The passport as ``(what, value)`` lines of text; empty entries are left out."""
    lines = [
        ("name", passport["name"]),
        ("digest", passport["digest"]),
        ("graphs", f"{passport['n_graphs']} of {passport['n_nodes']} nodes"),
        ("atlas", passport["atlas"]),
        ("classes", _join_counts(passport["classes"])),
        ("unlabelled", passport["n_unlabelled"]),
        ("sites", _join_counts(passport["sites"] or {})),
        ("covariates", ", ".join(passport["covariates"])),
        ("predefined folds", passport["n_folds"]),
    ]
    if graphs := passport["graphs"]:
        diagonal, density = graphs["diagonal"], graphs["density"]
        n_silent, n_with_silent = graphs["n_nodes_without_signal"], graphs["n_graphs_with_nodes_without_signal"]
        lines += [
            ("values", f"{graphs['min']:.6g} to {graphs['max']:.6g} ({graphs['dtype']})"),
            ("symmetric", "yes" if graphs["symmetric"] else f"no, by up to {graphs['largest_asymmetry']:.3g}"),
            ("diagonal", f"{diagonal['min']:.6g} to {diagonal['max']:.6g}"),
            ("density", f"{density['mean']:.4f} ({density['min']:.4f} to {density['max']:.4f})"),
            ("negative edges", f"{graphs['negative_share']:.2%}" if graphs["negative_share"] else ""),
            (
                "without signal",
                f"{n_silent} node{_s(n_silent)} in {n_with_silent} graph{_s(n_with_silent)}" if n_silent else "",
            ),
        ]
    if series := passport["time_series"]:
        lines += [
            ("time points", f"{series['min_length']} to {series['max_length']}"),
            ("series values", f"{series['min']:.6g} to {series['max']:.6g} ({series['dtype']})"),
        ]
    excluded = passport["exclusions"]
    lines += [("excluded", f"{subject}: {reason}") for subject, reason in islice(excluded.items(), _LISTED)]
    if len(excluded) > _LISTED:
        lines.append(("excluded", f"and {len(excluded) - _LISTED} more; see the passport's exclusions"))
    lines += [("handled", f"{what}: {list_some(where, _LISTED)}") for what, where in passport["handled"].items()]
    return [(what, str(value)) for what, value in lines if value]


def count_handled(handled: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """What was handled to how often. Files are not listed, because their names may be those of people."""
    times = {what: "once" if len(where) == 1 else f"{len(where)} times" for what, where in handled.items()}
    return {what: [*where] if all(map(_COUNT.fullmatch, where)) else [times[what]] for what, where in handled.items()}


def _digest_header(data: "BrainGraphs") -> bytes:
    """Everything but the large arrays, as canonical JSON."""
    covariates = data.covariates
    header = {
        "labels": data.labels.tolist(),
        "label_names": list(data.label_names),
        "subjects": data.subjects.tolist(),
        "sites": None if data.sites is None else data.sites.tolist(),
        "covariates": None
        if covariates is None
        else {str(name): [None if v != v else v for v in covariates[name].tolist()] for name in covariates},
        "folds": [fold.tolist() for fold in data.folds],
        "adjacency": None if data.adjacency is None else _layout(data.adjacency),
        "time_series": None if data.time_series is None else [_layout(series) for series in data.time_series],
    }
    return json.dumps(header, sort_keys=True).encode()


def _layout(array: NDArray[Any]) -> list[Any]:
    return [array.dtype.newbyteorder("<").str, list(array.shape)]


def _canonical(array: NDArray[Any]) -> NDArray[Any]:
    """The same values as contiguous little-endian memory, whatever the machine and layout."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def _scan_graphs(adjacency: NDArray[Any], digest: "hashlib._Hash") -> dict[str, Any]:
    n_graphs, n_nodes = adjacency.shape[:2]
    off_diagonal = ~np.eye(n_nodes, dtype=bool)
    low, high, asymmetry = np.inf, -np.inf, 0.0
    diagonal_low, diagonal_high, n_negative = np.inf, -np.inf, 0
    density = np.zeros(n_graphs)
    n_silent = np.zeros(n_graphs, dtype=np.int64)
    for start, chunk in iter_chunks(adjacency, _CHUNK_VALUES):
        values = _canonical(chunk)
        digest.update(values.data)
        low, high = min(low, values.min()), max(high, values.max())
        diagonal = np.diagonal(values, axis1=1, axis2=2)
        diagonal_low, diagonal_high = min(diagonal_low, diagonal.min()), max(diagonal_high, diagonal.max())
        transposed = values.swapaxes(1, 2)
        if not np.array_equal(values, transposed):
            asymmetry = max(asymmetry, float(np.abs(np.subtract(values, transposed, dtype=np.float64)).max()))
        is_edge = (values != 0) & off_diagonal
        n_edges = is_edge.sum(axis=2, dtype=np.int64)
        stop = start + len(values)
        density[start:stop] = n_edges.sum(axis=1) / max(1, n_nodes * (n_nodes - 1))
        n_silent[start:stop] = ((n_edges == 0) & ~is_edge.any(axis=1)).sum(axis=1)
        n_negative += int(((values < 0) & off_diagonal).sum())
    scale = max(abs(float(low)), abs(float(high)))
    return {
        "dtype": adjacency.dtype.name,
        "min": float(low),
        "max": float(high),
        "symmetric": bool(asymmetry <= 1e-6 * scale),
        "largest_asymmetry": asymmetry,
        "diagonal": {"min": float(diagonal_low), "max": float(diagonal_high)},
        "density": {"min": float(density.min()), "mean": float(density.mean()), "max": float(density.max())},
        "negative_share": n_negative / max(1, n_graphs * n_nodes * (n_nodes - 1)),
        "n_nodes_without_signal": int(n_silent.sum()),
        "n_graphs_with_nodes_without_signal": int((n_silent > 0).sum()),
    }


def _scan_series(time_series: tuple[NDArray[Any], ...], digest: "hashlib._Hash") -> dict[str, Any]:
    for series in time_series:
        digest.update(_canonical(series).data)
    lengths = [len(series) for series in time_series]
    return {
        "dtype": time_series[0].dtype.name,
        "min": float(min(series.min() for series in time_series)),
        "max": float(max(series.max() for series in time_series)),
        "min_length": min(lengths),
        "max_length": max(lengths),
    }


def _s(number: int) -> str:
    return "s" * (number != 1)


def _join_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in counts.items())
