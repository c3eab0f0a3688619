"""The text of a report: question, protocol, preparation, a paragraph and references for a paper."""

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files

import numpy as np

from isocapsnet._format import interval, number, seconds
from isocapsnet.evaluation.comparisons import REFERENCE
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.evaluation.preparation import NO_TRANSFORM, TRANSFORM
from isocapsnet.evaluation.procedures import TESTS
from isocapsnet.evaluation.statistics import CHANCE, LEVEL
from isocapsnet.report.content import Content, ReportedMethod

#: Parameters that a method selects inside each fit if the user does not set them.
SELECTED_IN_FIT = {
    "linear": ("C",),
    "confound-only": ("C",),
    "freq": ("density", "C"),
    "wl": ("density",),
    "shortest-path": ("density",),
}

# A reconstruction must be by this much more similar to its own graph than to graphs of other subjects.
_SPECIFIC = 0.05


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
    return f"Can brain graphs{graphs} distinguish between {listing(names) or 'the classes'}?"


def multiplicity_text(content: Content) -> str:
    """Which tests are adjusted together, how, and why adjusted p-values can be equal."""
    # Not by p < 1: Holm's method also makes p-values 1 of methods that were tested.
    n_tested = sum(
        any(abs(scores["roc_auc"] - CHANCE) > 0 for scores in row.scores.values()) and not row.covariates
        for row in content.table.rows
    )
    controls = [row.method for row in content.table.rows if row.covariates and row.scores]
    has_reference = any(row.method == REFERENCE and row.scores for row in content.table.rows)
    n_pairs = len(content.table.comparisons)
    families = (
        [f"the {n_tested} tests against chance" if n_tested > 1 else "the test against chance"] if n_tested else []
    )
    families += [f"the {n_pairs} pairs of methods" if n_pairs > 1 else "the one pair of methods"] if n_pairs else []
    families += [f"the comparisons with {REFERENCE} that verdicts are about"] if has_reference else []
    families += [f"the comparisons with {control}" for control in controls]
    if not families:
        return ""
    return (
        f"p-values are adjusted by Holm's method inside each family of tests: {listing(families)}. Each family has a "
        "false finding in at most 5 % of studies, if each test holds its level. Methods with constant scores cannot "
        "differ from chance and are not counted. Holm's method multiplies the smallest p-value of n tests by n, the "
        "next by n − 1, and so on, and never lets an adjusted p-value be smaller than the one before it. Equal "
        "adjusted p-values thus need not mean equal evidence."
    )


def protocol_text(content: Content) -> str:
    """How methods were evaluated."""
    protocol = content.protocol
    name, n_folds, repeats = protocol.get("name"), protocol.get("n_folds"), protocol.get("repeats", 1)
    given = content.passport.get("n_folds")
    times = "" if repeats in (None, 1) else f", repeated {repeats} times with new splits"
    sentences = {
        "nested": f"Methods were evaluated by stratified {n_folds}-fold cross-validation{times}.",
        "paper": f"Methods were evaluated on the {given} folds that come with the dataset."
        if given
        else f"Methods were evaluated by stratified {n_folds}-fold cross-validation.",
        "leave-site-out": f"Each test set is one site; training used only the other sites. {content.sites}",
    }
    words = [sentences.get(str(name), "The protocol is not on record.").strip()]
    if protocol.get("inner_folds"):
        words.append(
            f"Settings were selected inside each training fold by the mean ROC AUC over {protocol['inner_folds']} "
            f"inner folds, from at most {protocol['n_candidates']} settings per method, including its defaults."
        )
        if protocol.get("search") == "halving":
            words.append(
                "After each inner fold the better half of the settings was kept, without those far behind the "
                "defaults. The defaults were used unless another setting was better by more than a margin."
            )
    elif name:
        words.append("The protocol did no tuning: every method used the parameters shown.")
    own = [f"{listing(names)} of {method.label}" for method in content.methods if (names := selected_in_fit(method))]
    if own:
        words.append(f"Selected inside each fit by cross-validation within its training graphs: {'; '.join(own)}.")
    words.append("Test graphs were not used for fitting, early stopping, scaling or tuning.")
    if content.preparation:
        words.append(f"Fitted to the training graphs of each fold before each method: {listing(content.preparation)}.")
    return " ".join(words)


def prepared_text(content: Content) -> str:
    """That evidence is about prepared matrices, and which; empty if graphs were used as they are."""
    chosen = {
        str(fit.settings[TRANSFORM])
        for method in content.methods
        for fit in method.fits
        if method.explanation is not None and fit.settings.get(TRANSFORM, NO_TRANSFORM) != NO_TRANSFORM
    }
    steps = [*content.preparation, *sorted(chosen)]
    if not steps:
        return ""
    text = (
        f"The networks were given prepared matrices ({listing(steps)}), not the graphs themselves. Regions, edges and "
        "reconstructions below are those of the prepared matrices."
    )
    if "tangent" in steps:
        text += (
            " An entry of a matrix in tangent space is a deviation from the mean of all subjects, not a correlation."
        )
    return text


def doubtful_evidence(content: Content) -> str:
    """That evidence of methods which are not above chance may be noise; empty if there is none."""
    names = [m.label for m in content.methods if m.explanation is not None and not m.row.p_chance <= LEVEL]
    if not names:
        return ""
    is_one = len(names) == 1
    return (
        f"{listing(names)} {'is' if is_one else 'are'} not shown to be above chance, so the evidence of "
        f"{'this method' if is_one else 'these methods'} may be noise."
    )


def failed_reconstructions(content: Content) -> str:
    """That reconstructions show nothing of single subjects, with the correlations; empty if one of them does."""
    pairs = [
        method.explanation.reconstructions.similarity()
        for method in content.methods
        if method.explanation is not None and method.explanation.reconstructions is not None
    ]
    if not pairs or any(np.isnan([own, others]).any() or own - others > _SPECIFIC for own, others in pairs):
        return ""
    own, others = max(pairs)
    return (
        f"The reconstructions failed: they are about as similar to graphs of other subjects (mean correlation "
        f"{number(others, 2)}) as to their own graphs ({number(own, 2)}), so they show an average graph."
    )


def methods_text(content: Content) -> str:
    """A paragraph for the methods section of a paper."""
    passport, versions = content.passport, content.table.versions
    classes = ", ".join(f"{class_title(name)}: {count}" for name, count in (passport.get("classes") or {}).items())
    size = f"{passport['n_graphs']} graphs of {passport['n_nodes']} nodes" if "n_graphs" in passport else "brain graphs"
    packages = [f"{name} {versions[name]}" for name in ("torch", "scikit-learn", "numpy", "python") if name in versions]
    permutations, procedure = content.protocol.get("permutations"), TESTS[content.table.test]
    chance = (
        f"by {permutations} permutations of the subjects' data, each through the whole protocol"
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
        facts.append(
            ("records", f"{len(keys)} jobs (one for each method and test fold); the first record is {keys[0]}")
        )
    return facts


def bibtex(methods: Iterable[str], test: str) -> str:
    """Entries of ``references.bib`` for these methods, as far as they have a paper, and for the statistics."""
    names = {"statistics", test, *methods}
    _, *entries = (files("isocapsnet.report") / "references.bib").read_text(encoding="utf-8").strip().split("\n\n")
    described = (entry.removeprefix("%").split("\n", 1) for entry in entries)
    return "\n\n".join(text for cited_for, text in described if names.intersection(cited_for.split()))
