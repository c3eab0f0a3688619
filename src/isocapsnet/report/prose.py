"""The words of a report: question, answer with its uncertainty, what was tuned, text for a methods section."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from isocapsnet.report.content import Content, Method

#: The level of every test and the two yardsticks, as the benchmark has them.
LEVEL = 0.05
REFERENCE, CONSTANT = "linear", "constant"

#: Parameters that a method chooses inside each fit where nobody sets them.
CHOSEN_IN_FIT = {"linear": ("C",), "freq": ("density", "C"), "wl": ("density",)}

_MISSING = "–"

METRIC_NAMES = {
    "roc_auc": "ROC AUC",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "weighted_f1": "weighted F1",
    "macro_f1": "macro F1",
    "mcc": "MCC",
    "brier": "Brier score",
}


def number(value: float | None, digits: int = 3) -> str:
    """``0.712``; a dash where there is no number."""
    return _MISSING if value is None or math.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def interval(values: Mapping[str, float | None], digits: int = 3) -> str:
    """``0.712 [0.650, 0.774]``; the mean alone where there is no interval."""
    low, high = number(values["low"], digits), number(values["high"], digits)
    return number(values["mean"], digits) + (f" [{low}, {high}]" if _MISSING not in (low, high) else "")


def effect(values: Mapping[str, float | None]) -> str:
    """An effect size, ``0.71 [0.42, 1.01]``."""
    return interval({"mean": values["value"], "low": values["low"], "high": values["high"]}, digits=2)


def p_value(value: float | None) -> str:
    """``p = 0.012``, ``p < 0.001``."""
    if value is None or math.isnan(value):
        return _MISSING
    return "p\u00a0<\u00a00.001" if value < 0.001 else f"p\u00a0=\u00a0{value:.3f}"


def duration(seconds: float | None) -> str:
    """``40 ms``, ``4.2 s``, ``12 s``, ``3.1 min``, ``2.0 h``."""
    if seconds is None or math.isnan(seconds):
        return _MISSING
    if seconds < 0.95:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def listing(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))


def class_title(name: str) -> str:
    """``control``; ``class -1`` where the name is a number, which alone would read as one."""
    return f"class {name}" if re.fullmatch(r"[-+]?[\d.]+", name) else name


def question(content: Content) -> str:
    """What the study asks."""
    passport = content.results["passport"]
    counts = {class_title(name): count for name, count in (passport.get("classes") or {}).items()}
    names = [f"{name} ({counts[name]})" if name in counts else name for name in content.classes]
    graphs = f" of {passport['n_nodes']} nodes" if "n_nodes" in passport else ""
    return f"Can {listing(names) or 'the classes'} be told apart by their brain graphs{graphs}?"


def answer(content: Content) -> list[str]:
    """What the numbers show, one sentence per item, the most important first."""
    rows = [method.row for method in content.methods if method.row["metrics"]["roc_auc"]["mean"] is not None]
    contenders = [row for row in rows if row["method"] != CONSTANT]
    if not contenders:
        return ["There is no answer: no method has a finished job that can be scored."]
    sentences = [_verdict(contenders)]
    best = max(contenders, key=lambda row: row["metrics"]["roc_auc"]["mean"])
    sentences.append(
        f"The highest mean ROC AUC is that of {best['method']}: {interval(best['metrics']['roc_auc'])} "
        f"({_evidence(best)})."
    )
    if len(contenders) > 1:
        sentences.append(
            f"{best['method']} beats every other method."
            if best["is_best"]
            else "No method beats every other one, so none is marked as the best."
        )
    sentences += _against_reference(content, rows)
    sentences += [content.sites] if content.sites else []
    sentences += _power(content.results.get("detectable"))
    if content.n_failed:
        sentences.append(f"{content.n_failed} of {content.n_jobs} jobs failed, so part of the comparison is missing.")
    return sentences


def _verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """The answer in one sentence, from the tests against chance."""
    above = [row["method"] for row in rows if row["p_chance"] is not None and row["p_chance"] <= LEVEL]
    if all(len(row["folds"]) < 2 for row in rows):
        return "Not decided: a single test fold shows no more than its own interval."
    if not above:
        who = f"None of the {len(rows)} methods is" if len(rows) > 1 else f"{rows[0]['method']} is not"
        return f"Not shown: {who[0].lower() + who[1:]} distinguishable from chance on these data."
    if len(above) == 1:
        return f"Yes: {above[0]} is above chance."
    which = f"{len(above)} of {len(rows)} methods"
    if len(above) == len(rows):
        which = "both methods" if len(rows) == 2 else f"all {len(rows)} methods"
    return f"Yes: {which}{f' ({listing(above)})' if len(above) <= 4 else ''} are above chance."


def _evidence(row: Mapping[str, Any]) -> str:
    """The number of test folds behind an interval, and the test against chance."""
    n_folds, n_scored = len(row["folds"]), sum(fold.get("roc_auc", 0.0) is not None for fold in row["folds"])
    counted = f"{n_scored} of {n_folds}" if n_scored < n_folds else f"{n_folds}"
    words = [f"95 % interval over {counted} test folds"] if n_folds > 1 else ["one test fold"]
    if row["p_chance"] is not None:
        words.append(f"{p_value(row['p_chance'])} against chance")
    return ", ".join(words)


def _against_reference(content: Content, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How each isomorphic capsule network stands to the linear model, which every claim has to pass."""
    if not any(row["method"] == REFERENCE for row in rows):
        return ["There is no linear model in this comparison, so nothing says whether a network was needed."]
    sentences = []
    by_label = {method.label: method for method in content.methods}
    for pair in content.results["comparisons"]:
        names = [pair["first"], pair["second"]]
        other = next((name for name in names if name != REFERENCE), "")
        if REFERENCE not in names or other not in by_label or by_label[other].name != "isocapsnet":
            continue
        difference = _turned(pair["difference"]) if pair["first"] == REFERENCE else pair["difference"]
        sentences.append(f"{other} minus {REFERENCE} is {interval(difference)} in ROC AUC on the same folds.")
    return sentences


def _turned(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """The interval of second minus first."""
    flip = {name: None if value is None else -value for name, value in values.items()}
    return {"mean": flip["mean"], "low": flip["high"], "high": flip["low"]}


def _power(detectable: Mapping[str, Any] | None) -> list[str]:
    """What the run would have missed; nothing where that is not known."""
    above, between = ((detectable or {}).get(name) for name in ("above_chance", "between_methods"))
    if detectable is None or above is None or between is None:
        return []
    if above >= 1:
        return ["With this few graphs and folds, hardly any effect could be shown (80 % power)."]
    missed = (
        f"With {detectable['n_scores']:.0f} test folds of this size, a ROC AUC below about {above:.2f} would be missed "
        "more often than one time in five."
    )
    if between < 0.5:
        missed += (
            f" So would a difference below about {between:.2f} between two methods near chance whose scores correlate "
            "by one half; methods that agree more can be told apart by less."
        )
    return [missed]


def protocol_text(content: Content) -> str:
    """How methods were evaluated, as a sentence or two."""
    protocol = content.results.get("protocol") or {}
    name = protocol.get("name")
    folds, repeats = protocol.get("n_folds"), protocol.get("repeats", 1)
    given = content.results["passport"].get("n_folds")
    times = "" if repeats in (None, 1) else f", repeated {repeats} times with new splits"
    sentences = {
        "nested": f"Stratified {folds}-fold cross-validation{times}.",
        "paper": f"The {given} folds that come with the dataset."
        if given
        else f"Stratified {folds}-fold cross-validation.",
        "leave-site-out": f"Sites were the test sets, and training used the other sites alone. {content.sites}".strip(),
    }
    words = [sentences.get(str(name), "The protocol is not on record.")]
    if protocol.get("inner_folds"):
        words.append(
            f"Settings were chosen inside each training fold by the mean ROC AUC over {protocol['inner_folds']} inner "
            f"folds, among at most {protocol['n_candidates']} settings per method, its defaults first among them."
        )
    elif name:
        words.append("The protocol tuned nothing: every method ran with the parameters shown.")
    own = [f"{listing(names)} of {method.label}" for method in content.methods if (names := chosen_in_fit(method))]
    if own:
        words.append(f"Chosen inside each fit, by cross-validation within its training graphs: {'; '.join(own)}.")
    words.append("Test graphs took no part in fitting, early stopping, scaling or tuning.")
    steps = [step["name"] for step in content.results.get("preparation") or ()]
    if steps:
        words.append(f"Before each method, fitted on the training graphs of the fold alone: {listing(steps)}.")
    return " ".join(words)


def methods_text(content: Content) -> str:
    """A paragraph for the methods section of a paper."""
    passport, versions = content.results["passport"], content.results.get("versions") or {}
    counts = passport.get("classes") or {}
    classes = ", ".join(f"{class_title(name)}: {count}" for name, count in counts.items())
    size = f"{passport['n_graphs']} graphs of {passport['n_nodes']} nodes" if "n_graphs" in passport else "brain graphs"
    packages = [f"{name} {versions[name]}" for name in ("torch", "scikit-learn", "numpy", "python") if name in versions]
    permutations = (content.results.get("protocol") or {}).get("permutations")
    chance = (
        f"by {permutations} permutations of the labels through the whole protocol"
        if permutations
        else "by a one-sided corrected resampled t-test"
    )
    used = f" {versions['isocapsnet']}" if "isocapsnet" in versions else ""
    return (
        f"We compared {listing([method.label for method in content.methods])} on {content.name} ({size}"
        f"{'; ' + classes if classes else ''}). {protocol_text(content)} We report ROC AUC, accuracy, balanced "
        f"accuracy and weighted F1 as means over test folds with 95 % intervals whose variance is corrected for "
        f"overlapping training sets (Nadeau and Bengio, 2003) and, for ROC AUC, taken to be at least what the number "
        f"of test graphs implies (Hanley and McNeil, 1982). Methods were tested against chance {chance}, and "
        f"against each other by two-sided corrected resampled t-tests on the same folds; p-values are adjusted by "
        f"Holm's method (1979). "
        f"All computations were done with isocapsnet{used}"
        f"{' (' + ', '.join(packages) + ')' if packages else ''}."
    )


def chosen_in_fit(method: Method) -> list[str]:
    """Parameters that the method chooses by itself in every fit."""
    return [name for name in CHOSEN_IN_FIT.get(method.name, ()) if method.parameters.get(name) is None]


def describe_method(method: Method) -> str:
    """Parameters that differ from the defaults, or that there are none."""
    settings = ", ".join(f"{name} = {value}" for name, value in method.parameters.items())
    return settings or "all parameters at their defaults"
