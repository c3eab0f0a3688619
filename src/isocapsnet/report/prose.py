"""The text of a report: question, answer with its uncertainty, protocol, a paragraph and references for a paper."""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

import numpy as np

from isocapsnet._format import interval, number, p_value, seconds
from isocapsnet.evaluation.comparisons import CONSTANT, REFERENCE
from isocapsnet.evaluation.inference import MARGIN
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.evaluation.power import describe_needed
from isocapsnet.evaluation.procedures import TESTS
from isocapsnet.evaluation.results import MethodResult
from isocapsnet.evaluation.statistics import LEVEL
from isocapsnet.report.content import Content, ReportedMethod

#: Parameters that a method selects inside each fit if the user does not set them.
SELECTED_IN_FIT = {
    "linear": ("C",),
    "confound-only": ("C",),
    "freq": ("density", "C"),
    "wl": ("density",),
    "shortest-path": ("density",),
}


def listing(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))


def class_title(name: str) -> str:
    """``control``; ``class -1`` for names that are numbers."""
    return f"class {name}" if re.fullmatch(r"[-+]?[\d.]+", name) else name


def question(content: Content) -> str:
    """The question of the study."""
    counts = {class_title(name): count for name, count in (content.passport.get("classes") or {}).items()}
    names = [f"{name} ({counts[name]})" if name in counts else name for name in content.classes]
    graphs = f" of {content.passport['n_nodes']} nodes" if "n_nodes" in content.passport else ""
    return f"Can brain graphs{graphs} distinguish {listing(names) or 'the classes'}?"


def answer(content: Content) -> list[str]:
    """The answer, one sentence per item, the most important first."""
    rows = [method.row for method in content.methods if not np.isnan(method.row.metrics["roc_auc"].mean)]
    contenders = [row for row in rows if row.method != CONSTANT and not row.covariates]
    if not contenders:
        return ["There is no answer: no method has a finished job with a score."]
    best = max(contenders, key=lambda row: row.metrics["roc_auc"].mean)
    sentences = [
        _verdict(contenders, TESTS[content.table.test].min_folds),
        f"{best.method} has the highest mean ROC AUC: {interval(*best.metrics['roc_auc'])} ({_evidence(best)}).",
    ]
    if len(contenders) > 1:
        sentences.append(
            f"{best.method} is better than every other method."
            if best.is_best
            else "No method is better than every other method, so none is marked as the best."
        )
    sentences += _against_reference(content, rows)
    sentences += _against_controls(content, contenders)
    sentences += [content.sites] if content.sites else []
    sentences += _power(content.detectable)
    if content.n_failed:
        sentences.append(f"{content.n_failed} of {content.n_jobs} jobs failed, so the comparison is incomplete.")
    return sentences


def _verdict(rows: Sequence[MethodResult], min_folds: int) -> str:
    """The answer in one sentence, from the tests against chance."""
    if all(len(row.scores) < min_folds for row in rows):
        return "Undecided: there is a single test fold, which shows no more than its own interval."
    winners = [row.method for row in rows if row.p_chance <= LEVEL]
    if not winners:
        who = f"none of the {len(rows)} methods is" if len(rows) > 1 else f"{rows[0].method} is not"
        return f"Not shown: {who} distinguishable from chance on these data."
    if len(winners) == 1:
        return f"Yes: {winners[0]} is above chance."
    which = f"{len(winners)} of {len(rows)} methods"
    if len(winners) == len(rows):
        which = "both methods" if len(rows) == 2 else f"all {len(rows)} methods"
    return f"Yes: {which}{f' ({listing(winners)})' if len(winners) <= 4 else ''} are above chance."


def _evidence(row: MethodResult) -> str:
    """The number of test folds behind an interval, and the test against chance."""
    n_folds, n_scored = len(row.scores), sum(not np.isnan(scores["roc_auc"]) for scores in row.scores.values())
    counted = f"{n_scored} of {n_folds}" if n_scored < n_folds else f"{n_folds}"
    words = [f"95 % interval over {counted} test folds"] if n_folds > 1 else ["one test fold"]
    if not np.isnan(row.p_chance):
        words.append(f"{p_value(row.p_chance)} against chance")
    return ", ".join(words)


def _against_reference(content: Content, rows: Sequence[MethodResult]) -> list[str]:
    """The difference of each isomorphic capsule network to the linear model."""
    if not any(row.method == REFERENCE for row in rows):
        return ["The comparison has no linear model, so it does not show whether a network is needed."]
    sentences = []
    name_of = {method.label: method.row.name for method in content.methods}
    for pair in content.table.comparisons:
        mean, low, high = pair.difference
        other = pair.first
        if pair.first == REFERENCE:
            other, mean, low, high = pair.second, -mean, -high, -low
        if REFERENCE in (pair.first, pair.second) and name_of.get(other) == "isocapsnet":
            sentence = f"{other} minus {REFERENCE} is {interval(mean, low, high)} in ROC AUC on the same test folds."
            if pair.p_equivalent <= LEVEL:
                sentence += f" They are equivalent: they differ by less than {MARGIN} ({p_value(pair.p_equivalent)})."
            sentences.append(sentence)
    return sentences


def _against_controls(content: Content, contenders: Sequence[MethodResult]) -> list[str]:
    """What covariates alone predict, and which methods above chance are not better; or why there is no such row."""
    controls = [method.row for method in content.methods if method.row.covariates and method.row.scores]
    sentences = []
    for control in controls:
        given = listing(list(control.covariates))
        sentences.append(
            f"{control.method}, a linear model on {given} without graphs, has a ROC AUC of "
            f"{interval(*control.metrics['roc_auc'])} ({_evidence(control)})."
        )
        weak = [r.method for r in contenders if r.p_chance <= LEVEL and control.method in r.not_better_than]
        if weak:
            sentences.append(
                f"Not shown to be better than {control.method}: {listing(weak)}. It is not shown that graphs tell "
                f"{'it' if len(weak) == 1 else 'them'} more than {given}."
            )
    return sentences or ([content.confounds] if content.confounds else [])


def _power(detectable: Mapping[str, float | None] | None) -> list[str]:
    """The effects that the study can show; none if they were not computed."""
    detectable = detectable or {}
    n_folds, area, between = (detectable.get(name) for name in ("n_scores", "above_chance", "between_methods"))
    if area is None or between is None:
        return []
    if area >= 1:
        hopeless = "With so few graphs and folds, the study could hardly show any effect (80 % power)."
        return [hopeless, *filter(None, [describe_needed(detectable)])]
    sentence = (
        f"With {n_folds:.0f} test folds of this size, the study would miss a ROC AUC below about {area:.2f} in more "
        "than one of five cases."
    )
    if between < 0.5:
        sentence += (
            f" The same holds for a difference below about {between:.2f} between two methods near chance whose scores "
            "have a correlation of 0.5; for higher correlations, smaller differences can be shown."
        )
    return [sentence, *filter(None, [describe_needed(detectable)])]


def multiplicity_text(content: Content) -> str:
    """Which tests are adjusted together, how, and why adjusted p-values can be equal."""
    n_tested = sum(row.p_chance < 1 and not row.covariates for row in content.table.rows)
    controls = [row.method for row in content.table.rows if row.covariates and row.scores]
    has_reference = any(row.method == REFERENCE and row.scores for row in content.table.rows)
    families = [f"the {n_tested} tests against chance"] if n_tested else []
    families += [f"the {len(content.table.comparisons)} pairs of methods"] if content.table.comparisons else []
    families += [f"the comparisons with {REFERENCE} that verdicts are about"] if has_reference else []
    families += [f"the comparisons with {control}" for control in controls]
    if not families:
        return ""
    return (
        f"p-values are adjusted by Holm's method inside each family of tests: {listing(families)}. Each family has a "
        "false finding in at most 5 % of studies. Methods with constant scores cannot differ from chance and are not "
        "counted. Holm's method multiplies the smallest p-value of n tests by n, the next by n − 1, and so on, and "
        "never lets an adjusted p-value be smaller than the one before it. Equal adjusted p-values thus need not mean "
        "equal evidence."
    )


def protocol_text(content: Content) -> str:
    """How methods were evaluated."""
    protocol = content.protocol
    name, n_folds, repeats = protocol.get("name"), protocol.get("n_folds"), protocol.get("repeats", 1)
    given = content.passport.get("n_folds")
    times = "" if repeats in (None, 1) else f", repeated {repeats} times with new splits"
    sentences = {
        "nested": f"Stratified {n_folds}-fold cross-validation{times}.",
        "paper": f"The {given} folds that come with the dataset."
        if given
        else f"Stratified {n_folds}-fold cross-validation.",
        "leave-site-out": f"Each test set is one site; training used only the other sites. {content.sites}",
    }
    words = [sentences.get(str(name), "The protocol is not on record.").strip()]
    if protocol.get("inner_folds"):
        words.append(
            f"Settings were selected inside each training fold by the mean ROC AUC over {protocol['inner_folds']} "
            f"inner folds, from at most {protocol['n_candidates']} settings per method, including its defaults."
        )
        if protocol.get("search") == "halving":
            words.append("After each inner fold the better half of the settings was kept, and always the defaults.")
    elif name:
        words.append("The protocol did no tuning: every method used the parameters shown.")
    own = [f"{listing(names)} of {method.label}" for method in content.methods if (names := selected_in_fit(method))]
    if own:
        words.append(f"Selected inside each fit by cross-validation within its training graphs: {'; '.join(own)}.")
    words.append("Test graphs were not used for fitting, early stopping, scaling or tuning.")
    if content.preparation:
        words.append(f"Fitted to the training graphs of each fold before each method: {listing(content.preparation)}.")
    return " ".join(words)


def methods_text(content: Content) -> str:
    """A paragraph for the methods section of a paper."""
    passport, versions = content.passport, content.table.versions
    classes = ", ".join(f"{class_title(name)}: {count}" for name, count in (passport.get("classes") or {}).items())
    size = f"{passport['n_graphs']} graphs of {passport['n_nodes']} nodes" if "n_graphs" in passport else "brain graphs"
    packages = [f"{name} {versions[name]}" for name in ("torch", "scikit-learn", "numpy", "python") if name in versions]
    permutations, procedure = content.protocol.get("permutations"), TESTS[content.table.test]
    chance = (
        f"by {permutations} permutations of the labels, each through the whole protocol"
        if permutations
        else procedure.of_chance
    )
    used = f" {versions['isocapsnet']}" if "isocapsnet" in versions else ""
    return (
        f"We compared {listing([method.label for method in content.methods])} on {content.name} ({size}"
        f"{'; ' + classes if classes else ''}). {protocol_text(content)} We report ROC AUC, accuracy, balanced "
        f"accuracy and weighted F1 as means over test folds with 95 % intervals. {procedure.of_intervals} Methods were "
        f"tested against chance {chance}, and against each other {procedure.of_differences}. All variances are "
        f"corrected for overlapping training sets (Nadeau and Bengio, 2003); p-values are adjusted by Holm's method "
        f"(1979). All computations used isocapsnet{used}{' (' + ', '.join(packages) + ')' if packages else ''}."
    )


def selected_in_fit(method: ReportedMethod) -> list[str]:
    """Parameters that the method selects by itself in every fit."""
    return [name for name in SELECTED_IN_FIT.get(method.row.name, ()) if method.row.parameters.get(name) is None]


def describe_parameters(method: ReportedMethod) -> str:
    """Parameters that differ from the defaults."""
    settings = ", ".join(f"{name} = {value}" for name, value in method.row.parameters.items())
    return settings or "all parameters at their defaults"


def method_facts(method: ReportedMethod) -> list[tuple[str, str]]:
    """Parameters, scores, times and memory of one method."""
    row, fits = method.row, method.fits
    facts = [("parameters", describe_parameters(method))]
    facts += [(METRICS[name].label, interval(*values)) for name, values in row.metrics.items()]
    if fits:
        times = [
            f"{name} {seconds(float(np.mean([fit.seconds.get(name, 0.0) for fit in fits])))}"
            for name in ("tune", "fit", "predict")
        ]
        facts.append(("mean time per fold", ", ".join(times)))
    if memory := max((fit.peak_memory or 0 for fit in fits), default=0):
        facts.append(("peak memory", f"{number(memory / 1e6, 0)} MB"))
    return [*facts, ("jobs", f"{row.jobs - row.failed} of {row.jobs} finished")]


def reproduction_facts(content: Content) -> list[tuple[str, str]]:
    """Digests, seeds and versions."""
    facts = [("data digest", str(content.passport.get("digest") or "not on record")), *content.table.versions.items()]
    facts.append(("seeds", "derived from the data digest, the method's name, the repeat and the fold"))
    keys = [key for method in content.methods for key in method.row.keys.values()]
    if keys:
        facts.append(("records", f"{len(keys)} test folds; the first record is {keys[0]}"))
    return facts


def bibtex(methods: Iterable[str], test: str) -> str:
    """Entries of ``references.bib`` for these methods, as far as they have a paper, and for the statistics."""
    names = {"statistics", test, *methods}
    _, *entries = (files("isocapsnet.report") / "references.bib").read_text(encoding="utf-8").strip().split("\n\n")
    described = (entry.removeprefix("%").split("\n", 1) for entry in entries)
    return "\n\n".join(text for cited_for, text in described if names.intersection(cited_for.split()))
