"""How a user reads each thing: the public functions and commands, and a look at what they return.

Each returns lines that say what was read; of a damaged folder some may be missing, but none may be new.
"""

import hashlib
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from isocapsnet import BrainGraphs, InputError, load_graphs
from isocapsnet.cli import main
from isocapsnet.datasets.readers import ReadOptions, examine_graphs

#: Bytes that may be read into memory, where a function or command can be told.
_READ_LIMIT = 2_000_000_000
#: What a command may print about one input.
_MOST_CHARACTERS = 20_000


def strange_characters(text: str) -> list[str]:
    """Characters that steer a terminal or cannot be seen: controls, marks of direction, parts of a pair."""
    return sorted(
        {character for character in text if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    )


class WrongError(Exception):
    """Something was read and is not what it must be."""


class UnclearError(Exception):
    """Something was said that is no sentence to be shown to a person."""


def _use_graphs(data: BrainGraphs) -> str:
    """What anyone does with graphs next, and a digest of them."""
    data.describe()
    if len(repr(data)) > _MOST_CHARACTERS:
        raise UnclearError(f"repr of {len(repr(data))} characters")
    content = hashlib.sha256()
    for array in (data.adjacency, *(data.time_series or ())):
        if array is not None:
            if not np.isfinite(np.asarray(array, dtype=np.float64)).all():
                raise WrongError("graphs with values that are not finite")
            content.update(np.ascontiguousarray(array).tobytes())
    content.update(
        repr((data.subjects.tolist(), data.labels.tolist(), data.label_names)).encode("utf-8", "surrogatepass")
    )
    return content.hexdigest()


def _complete(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with tables and lists where they are, and the limit."""
    folder = path if path.is_dir() else path.parent
    names = {name for name in ("participants", "regions", "subjects") if "." in options.get(name, "")}
    places = {name: (folder if (folder / options[name]).exists() else folder.parent) / options[name] for name in names}
    return {**options, **places, "read_limit": _READ_LIMIT}


def _load_graphs(path: Path, options: Mapping[str, Any]) -> str:
    return _use_graphs(load_graphs(path, **_complete(path, options)))


def _load(path: Path, options: Mapping[str, Any]) -> str:
    return _use_graphs(BrainGraphs.load(path, read_limit=_READ_LIMIT))


def _examine_graphs(path: Path, options: Mapping[str, Any]) -> str:
    data, findings = examine_graphs(path, ReadOptions(**_complete(path, options)))
    if findings.errors or data is None:
        raise InputError(findings.errors[0])
    return _use_graphs(data)


def _check_data(path: Path, options: Mapping[str, Any]) -> str:
    arguments = ["data", "check", str(path)]
    for name, value in _complete(path, options).items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            arguments.append(option if value else f"--un{name}")
        else:
            arguments += [option, ",".join(value) if isinstance(value, list | tuple) else str(value)]
    return _command(arguments)


def _command(arguments: list[str]) -> str:
    """Run a command; what it refuses is raised again, so that all ways are counted alike."""
    result = CliRunner().invoke(main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if strange := strange_characters(result.output.replace("\n", "").replace("\t", "")):
        raise UnclearError(f"printed {strange[0]!r}")
    if len(result.output) > _MOST_CHARACTERS:
        raise UnclearError(f"printed {len(result.output)} characters")
    if result.exit_code:
        raise InputError(result.output.strip().replace("\n", " ")[:500])
    return ""


def _load_model(path: Path, options: Mapping[str, Any]) -> str:
    """A model that was loaded must answer."""
    from isocapsnet import load_model

    model = load_model(path)
    repr(model)
    X = np.random.default_rng(1).normal(size=(2, 5, 5)).astype(np.float32)
    probabilities = model.predict_proba(X + X.swapaxes(1, 2))
    if not np.allclose(probabilities.sum(axis=1), 1) or not (probabilities >= 0).all():
        raise WrongError(f"probabilities {probabilities[0]}")
    return probabilities.tobytes().hex()


def _read_store(path: Path, options: Mapping[str, Any]) -> str:
    from isocapsnet.evaluation import Store, tabulate
    from isocapsnet.evaluation.naming import digest_of
    from isocapsnet.evaluation.output import results_frame, results_json
    from isocapsnet.evaluation.results import group_records

    store = Store(path)
    found = [*store.records(), *store.errors()]
    store.describe_rejected()
    records = group_records(item for item in found if "reason" not in item)
    errors = group_records(item for item in found if "reason" in item)
    for group in dict.fromkeys([*records, *errors]):
        table = tabulate(records.get(group, []), errors.get(group, []))
        results_frame(table)
        results_json(table, {})
    return "\n".join(digest_of(item) for item in found)


def _read_results(path: Path, options: Mapping[str, Any]) -> str:
    from isocapsnet._reporting import read_content

    read_content(path)
    return ""


def _compare(path: Path, options: Mapping[str, Any]) -> str:
    return _command(["compare", str(path)])


def _merge(path: Path, options: Mapping[str, Any]) -> str:
    return _command(["compare", str(path), str(path), "--out", str(path / "merged")])


def _report(path: Path, options: Mapping[str, Any]) -> str:
    return _command(["report", str(path)])


WAYS: dict[str, Callable[[Path, Mapping[str, Any]], str]] = {
    "load_graphs": _load_graphs,
    "examine_graphs": _examine_graphs,
    "data check": _check_data,
    "BrainGraphs.load": _load,
    "load_model": _load_model,
    "Store": _read_store,
    "compare": _compare,
    "two folders": _merge,
    "read_results": _read_results,
    "report": _report,
}
