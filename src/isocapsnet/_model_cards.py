"""The card of a model: what it was made of, what to expect of it, and what it must not be used for."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from isocapsnet import __version__
from isocapsnet._files import write_whole
from isocapsnet._format import interval, number
from isocapsnet._pipelines import load_model
from isocapsnet._refitting import Pipeline
from isocapsnet._safe_text import list_some, printable
from isocapsnet._validation import InputError, check_target
from isocapsnet.datasets.passport import count_handled, format_passport
from isocapsnet.evaluation.jobs import method_label
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.evaluation.samples import Samples

if TYPE_CHECKING:
    from isocapsnet.models._base import GraphClassifier

#: What each step of a preparation does, in words.
_STEPS = {
    "connectivity": "makes graphs of time series",
    "tangent": "projects matrices to the tangent space at the mean of the training subjects",
    "fisher-z": "takes Fisher's z of correlations",
    "density": "keeps the edges that are strongest on average over the training subjects",
    "threshold": "sets weak edges to 0",
    "log": "takes the logarithm of edges",
    "scale": "divides edges by their deviation over the training subjects",
    "signs": "changes the signs of edges",
    "confounds": "subtracts what covariates explain, as in the training subjects",
    "harmonize": "removes differences between sites (ComBat), as in the training subjects",
}
_SHOWN = ("roc_auc", "accuracy", "balanced_accuracy", "brier")
#: Sections of a card and their titles.
_TITLES = {
    "expected": "Expected performance",
    "limits": "What it must not be used for",
    "model": "Model",
    "preparation": "Preparation",
    "calibration": "Probabilities",
    "data": "Training data",
    "nodes": "Nodes",
}


def make_card(estimator: "GraphClassifier", pipeline: Pipeline, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The card of an estimator that was fitted as a pipeline says, as JSON values; it names no subject."""
    spec, samples = pipeline.spec, pipeline.samples
    passport, atlas = samples.data.passport, samples.data.atlas
    if excluded := passport["exclusions"]:
        passport["exclusions"] = {f"{len(excluded)} subjects": ", ".join(sorted(set(excluded.values())))}
    passport["handled"] = count_handled(passport["handled"])
    return {
        "isocapsnet": __version__,
        "model": {
            "method": method_label(spec.name, spec.parameters),
            "class": type(estimator).__name__,
            "settings": {name: repr(value) for name, value in settings.items()},
            "searched": {name: [repr(value) for value in values] for name, values in spec.space.items()}
            if pipeline.protocol is not None and pipeline.protocol.is_tuned
            else {},
        },
        "preparation": [
            {
                "name": step.name,
                "parameters": {k: repr(v) for k, v in step.parameters.items()},
                "columns": [*step.columns],
            }
            for step in pipeline.steps
        ],
        "expected": pipeline.expected,
        "calibration": _describe_calibration(estimator),
        "data": passport,
        "covariates": _describe_covariates(samples, [column for step in pipeline.steps for column in step.columns]),
        "nodes": {"n_nodes": samples.data.n_nodes, "atlas": None if atlas is None else atlas.name or "named nodes"},
        "limits": _list_limits(pipeline),
    }


def _describe_calibration(estimator: Any) -> str:
    """How the probabilities of an estimator came about."""
    is_calibrated = getattr(estimator, "is_calibrated_", None)  # a user's own estimator does not say
    if is_calibrated is None:
        return "It is not known whether the probabilities were calibrated."
    if not is_calibrated:
        return "Probabilities are those of the method itself; they were not calibrated on held-out subjects."
    sentence = "Probabilities are calibrated on held-out training subjects"
    if not hasattr(estimator, "temperature_"):
        return f"{sentence}."
    return f"{sentence}: class scores are multiplied by {estimator.temperature_:.3g} before the softmax."


def _describe_covariates(samples: Samples, columns: list[str]) -> dict[str, str]:
    """The range or the values of covariates that the preparation uses, over the training subjects."""
    described = {}
    for column in columns:
        values = pd.Series(samples.covariates[column].iloc[samples.labelled])
        if values.dtype.kind == "f":
            described[column] = f"{values.min():.6g} to {values.max():.6g}"
        else:
            described[column] = list_some(sorted({str(value) for value in values if value}))
    return described


def _list_limits(pipeline: Pipeline) -> list[str]:
    """What the model must not be used for."""
    samples = pipeline.samples
    counts = np.bincount(samples.labels[samples.labelled])[samples.classes]
    shares = ", ".join(f"{n} {c / counts.sum():.0%}" for n, c in zip(samples.class_names, counts, strict=True))
    sites = [] if samples.sites is None else sorted({str(site) for site in samples.sites[samples.labelled]})
    where = f"{len(sites)} site{'s' * (len(sites) != 1)} ({list_some(sites)})" if sites else "one dataset"
    limits = [
        "Decisions about single people: it is a research model and was not tested for diagnosis or treatment.",
        f"Any question but {' or '.join(samples.class_names)}: it gives one of these answers for everybody.",
        f"Data with other scanners, regions or preprocessing than {where}, unless it was tested on them.",
        f"Groups with other shares of the classes, unless probabilities are corrected: training had {shares}.",
    ]
    if pipeline.expected is None:
        limits.append("Claims about its performance: none was measured. A benchmark measures it.")
    elif not pipeline.expected["verdict"].startswith("above chance"):
        limits.append(f"Claims that it predicts anything. The benchmark's verdict: {pipeline.expected['verdict']}.")
    return limits


# -- reading a card -----------------------------------------------------------------------------------------------


def model_card(model: Any, out: str | Path | None = None) -> dict[str, Any]:
    """The card of a model: data, preparation, settings, expected performance, calibration, nodes and limits.

    Parameters
    ----------
    model : fitted estimator, PreparedModel or path
        A model that :func:`isocapsnet.fit` fitted, or its file.
    out : path, optional
        Write the card as one self-contained HTML page.

    Returns
    -------
    card : dict
        JSON values.

    Examples
    --------
    >>> import isocapsnet
    >>> card = isocapsnet.model_card("model.safetensors", out="card.html")
    >>> card["expected"]["metrics"]["roc_auc"]  # the mean and its interval
    """
    opened = load_model(model) if isinstance(model, str | Path) else model
    card = getattr(opened, "card_", None)
    if card is None:
        raise InputError("The model has no card; fit it with isocapsnet.fit, which writes one.")
    if out is not None:
        check_target("The card", Path(out))
        write_whole(Path(out), _render(opened, card).encode())
    return dict(card)


def describe_expected(card: Mapping[str, Any] | None) -> list[str]:
    """What performance to expect, in sentences; none if it was not measured."""
    expected = (card or {}).get("expected")
    if not expected:
        return []
    scores = [
        f"{METRICS[name].label} {interval(*expected['metrics'][name])}"
        for name in _SHOWN
        if name in expected["metrics"]
    ]
    return [
        f"Expected on new subjects like these: {', '.join(scores)} (means over {_count_folds(expected)} with "
        f"95 % intervals, from the benchmark {expected['benchmark']}).",
        f"Verdict of the benchmark on {expected['method']}: {expected['verdict']}.",
    ]


def _count_folds(expected: Mapping[str, Any]) -> str:
    return f"{expected['n_folds']} test fold{'s' * (expected['n_folds'] != 1)}"


def list_sections(model: Any, card: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """The sections of a card by title, as ``(what, value)``; refused if the card was not written by ``fit``."""
    try:
        sections = {_TITLES[name]: lines for name, lines in _iter_sections(model, card)}
        return {title: [(printable(str(a)), printable(str(b))) for a, b in lines] for title, lines in sections.items()}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError("The card of the model was changed and cannot be read; fit the model again.") from error


def _iter_sections(model: Any, card: Mapping[str, Any]) -> Any:
    expected = card["expected"]
    if expected is None:
        yield (
            "expected",
            [("", "not measured; run a benchmark, and fit the model from its results")],
        )
    else:
        scores = [(METRICS[name].label, interval(*expected["metrics"][name])) for name in METRICS]
        protocol = f"{_count_folds(expected)}, {expected['n_predictions']} predictions ({expected['test']})"
        yield (
            "expected",
            [*scores, ("verdict", expected["verdict"]), ("measured by", expected["benchmark"]), ("over", protocol)],
        )
    yield "limits", [("", sentence) for sentence in card["limits"]]
    own = card["model"]
    lines = [("method", own["method"]), ("class", own["class"]), ("isocapsnet", card["isocapsnet"])]
    lines += [(f"chosen {name}", value) for name, value in own["settings"].items()]
    if own["searched"] and not own["settings"]:
        lines.append(("chosen", "the defaults"))
    lines += [(f"searched {name}", ", ".join(values)) for name, values in own["searched"].items()]
    yield "model", [*lines, ("classes", ", ".join(map(str, model.classes_)))]
    steps = []
    for step in card["preparation"]:
        details = [*(f"{name}={value}" for name, value in step["parameters"].items()), *step["columns"]]
        steps.append(
            (step["name"], _STEPS.get(step["name"], "a transform") + (f" ({', '.join(details)})" if details else ""))
        )
    yield "preparation", steps or [("", "none: graphs are used as they are")]
    brier = [] if expected is None else [("Brier score", interval(*expected["metrics"]["brier"]))]
    yield "calibration", [("", card["calibration"]), *brier]
    covariates = [(f"range of {name}", value) for name, value in card["covariates"].items()]
    yield "data", [*format_passport(card["data"]), *covariates]
    names = model.node_names_in_
    listed = (
        [("names", ", ".join(names))]
        if names
        else [("names", "not known; the order must be that of the training data")]
    )
    yield (
        "nodes",
        [("number", number(card["nodes"]["n_nodes"], 0)), ("atlas", card["nodes"]["atlas"] or "not known"), *listed],
    )


def _render(model: Any, card: Mapping[str, Any]) -> str:
    """The card as one page that needs no other file."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files("isocapsnet.report")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    sections = list_sections(model, card)
    return environment.from_string((folder / "card.html.jinja").read_text()).render(
        title=f"{card['model']['method']} on {card['data']['name'] or 'unnamed data'}",
        version=card["isocapsnet"],
        lead=describe_expected(card),
        sections={
            "".join(c if c.isalpha() else "-" for c in title.lower()): (title, s) for title, s in sections.items()
        },
        styles=Markup((folder / "assets" / "report.css").read_text()),
    )
