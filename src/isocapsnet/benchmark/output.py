"""The results folder's ``results.csv`` and ``results.json``."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd

from isocapsnet._safe_text import spreadsheet_safe
from isocapsnet.benchmark.results import MethodResult, Table
from isocapsnet.benchmark.statistics import METRICS, wilson_interval


def results_frame(table: Table) -> pd.DataFrame:
    """One row per method: method, jobs, failed, each metric with ``_low`` and ``_high``, seconds, verdict."""
    rows = []
    for row in table.rows:
        cells: dict[str, Any] = {"method": row.method, "jobs": row.jobs, "failed": row.failed}
        for name in METRICS:
            cells |= zip((name, f"{name}_low", f"{name}_high"), row.metrics[name], strict=True)
        rows.append(cells | {"seconds": row.seconds, "verdict": row.verdict})
    return pd.DataFrame(rows)


def results_json(table: Table, context: Mapping[str, Any]) -> dict[str, Any]:
    """The same with scores per fold, keys of records and comparisons, beside ``context``; numbers that are not finite
    become null."""
    content = {
        **context,
        "test_over_train": table.test_over_train,
        "methods": [_method_json(row) for row in table.rows],
        "comparisons": [
            asdict(comparison) | {"difference": comparison.difference._asdict()} for comparison in table.comparisons
        ],
    }
    plain: dict[str, Any] = _finite(content)
    return plain


def write_results(folder: Path, table: Table, context: Mapping[str, Any]) -> None:
    """Write ``results.csv`` and ``results.json``; ``context`` says where the numbers come from."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "results.csv": spreadsheet_safe(results_frame(table)).to_csv(index=False),
        "results.json": json.dumps(results_json(table, context), indent=1),
    }.items():
        partial = folder / f".{name}.{uuid4().hex}"
        partial.write_text(text, encoding="utf-8")
        partial.replace(folder / name)


def _method_json(row: MethodResult) -> dict[str, Any]:
    return {
        "method": row.method,
        "jobs": row.jobs,
        "failed": row.failed,
        "failures": row.failures,
        "metrics": {name: interval._asdict() for name, interval in row.metrics.items()},
        "folds": [_fold_json(row, place) for place in row.scores],
        "seconds": row.seconds,
        "use_unlabeled": row.use_unlabeled,
        "p_chance": row.p_chance,
        "verdict": row.verdict,
        "is_best": row.is_best,
        "audit": None if row.audit is None else asdict(row.audit) | {"difference": row.audit.difference._asdict()},
    }


def _fold_json(row: MethodResult, place: tuple[int, int]) -> dict[str, Any]:
    """The scores of one test fold, its accuracy with a Wilson interval."""
    scores, n_test = row.scores[place], row.n_test[place]
    _, low, high = wilson_interval(round(scores["accuracy"] * n_test), n_test)
    where = {"repeat": place[0], "fold": place[1], "key": row.keys[place], "n_test": n_test}
    return {**where, **scores, "accuracy_low": low, "accuracy_high": high}


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
