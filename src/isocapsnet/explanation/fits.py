"""The explanation of one fitted network, or of refits on folds, on graphs that they did not train on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import mode
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from isocapsnet._stages import enter_stage
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError, check_graphs, check_labels, check_number
from isocapsnet.explanation.attribution import edge_attributions, is_network, untrained_correlation
from isocapsnet.explanation.contrasts import effect_size, separation
from isocapsnet.explanation.motifs import Motifs, explain_motifs
from isocapsnet.explanation.windows import WindowEvidence, account_for_windows, find_layer

#: Takes the indices of training and test graphs, and returns both as a refit is given them.
Prepare = Callable[[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[Any], NDArray[Any]]]

# Graphs per class that are kept with their reconstructions.
_EXAMPLES = 6
# Graphs for which attributions are compared with those of an untrained network.
_CHECKED = 32


@dataclass(frozen=True)
class Templates:
    """The evidence of the templates of an isomorphic network on graphs that it did not train on.

    Evidence is the contribution of a window to the margin of the class scores, see
    :mod:`isocapsnet.explanation.windows`. For two classes there is one contrast, the second class against the first;
    for more there is one per class.

    Attributes
    ----------
    matrices : array (n_templates, k, k)
        In scaled units.
    stride : int
        Window [s, t] covers rows ``s * stride`` to ``s * stride + k - 1`` and columns ``t * stride`` to ...
    template_evidence : array (n_graphs, n_contrasts, n_templates)
        Of the whole template.
    region_evidence : array (n_graphs, n_contrasts, n_templates, n_nodes)
        Of the windows whose rows or columns contain the node: their sum along the other side, mean over the window
        positions that contain the node (a node at the border lies in fewer).
    unattributed : array (n_graphs, n_contrasts)
        The part of the margin that belongs to no window.
    window_separation : array (n_templates, n, n)
        Mean evidence in the class minus mean evidence in the rest; sums to the separation of the template.
    window_effect : array (n_templates, n, n)
        Cohen's d of the evidence.
    window_influence : array (n_templates, n, n)
        Standard deviation of the evidence over the graphs; it does not depend on labels.
    class_scores : array (n_classes, n_templates, n, n)
        Mean match score over the graphs of a class, 1 at a perfect match.
    orientation : array (n_classes, n_templates, n, n), int
        The most frequent permutation, as an index into ``itertools.permutations(range(k))``.
    orientation_share : array (n_classes, n_templates, n, n)
        The share of graphs with this permutation.
    """

    matrices: NDArray[np.float32]
    stride: int
    template_evidence: NDArray[np.float32]
    region_evidence: NDArray[np.float32]
    unattributed: NDArray[np.float32]
    window_separation: NDArray[np.float32]
    window_effect: NDArray[np.float32]
    window_influence: NDArray[np.float32]
    class_scores: NDArray[np.float32]
    orientation: NDArray[np.int64]
    orientation_share: NDArray[np.float32]


@dataclass(frozen=True)
class FitExplanation:
    """The explanation of one fitted network on graphs that it did not train on.

    Attributes
    ----------
    classes : array (n_classes,)
        Labels as text, in the order of the codes.
    positions : array (n_graphs,)
        Indices of the explained graphs among the given ones: those whose class the network was fitted to.
    codes : array (n_graphs,)
        The class of each.
    edges : array (n_nodes, n_nodes)
        How much each edge separates the classes: its mean attribution in the class minus that in the rest.
    randomization : float
        Rank correlation of attributions with those of an untrained network
        (:func:`~isocapsnet.explanation.attribution.randomization_check`).
    representation : array (n_graphs, size) or None
        The output of ``transform``; for capsule networks, the class capsules one after another.
    examples : array (n_examples,)
        Up to 6 graphs of each class, as indices into ``codes`` and ``positions``.
    example_graphs, example_reconstructions : array (n_examples, n_nodes, n_nodes)
        These graphs and their reconstructions, in original units; None for a network without a decoder.
    templates : Templates or None
        None for a network without templates for contiguous windows.
    motifs : Motifs or None
        None for a network without a motif form, or if its weight is 0.
    """

    classes: NDArray[np.str_]
    positions: NDArray[np.int64]
    codes: NDArray[np.int64]
    edges: NDArray[np.float32]
    randomization: float
    examples: NDArray[np.int64]
    example_graphs: NDArray[np.float32]
    example_reconstructions: NDArray[np.float32] | None = None
    representation: NDArray[np.float32] | None = None
    templates: Templates | None = None
    motifs: Motifs | None = None

    @property
    def n_nodes(self) -> int:
        """Nodes of each graph."""
        return len(self.edges)


@one_thread()
def explain_fit(estimator: Any, graphs: ArrayLike, labels: ArrayLike, method: str = "gradient") -> FitExplanation:
    """Explain a fitted network on labelled graphs, which should not be those it trained on.

    Parameters
    ----------
    estimator : NetworkClassifier
    graphs : array-like (n_graphs, n_nodes, n_nodes)
    labels : array-like (n_graphs,)
        Graphs with a label that the network was not fitted to are left out.
    method : {"gradient", "integrated"}
        How edges are attributed.
    """
    if not is_network(estimator):
        raise InputError(
            f"{type(estimator).__name__} is not a fitted network; only networks can be explained, such as isocapsnet."
        )
    X = estimator._check_fitted(graphs)
    code_of = {label: code for code, label in enumerate(estimator.classes_.tolist())}
    codes = np.array([code_of.get(label, -1) for label in np.asarray(labels).tolist()], dtype=np.int64)
    if len(codes) != len(X):
        raise InputError(f"There are {len(X)} graphs but {len(codes)} labels.")
    positions = np.flatnonzero(codes >= 0)
    if not len(positions):
        raise InputError(
            f"None of the graphs has one of the classes of the model ({', '.join(map(str, estimator.classes_))})."
        )
    X, codes, n_classes = X[positions], codes[positions], len(estimator.classes_)
    examples = np.sort(np.concatenate([np.flatnonzero(codes == code)[:_EXAMPLES] for code in range(n_classes)]))
    has_decoder = getattr(estimator.module_, "decoder", None) is not None and hasattr(estimator, "reconstruct")
    return FitExplanation(
        classes=np.array([str(label) for label in estimator.classes_]),
        positions=positions,
        codes=codes,
        edges=separation(edge_attributions(estimator, X, method), codes, n_classes).astype(np.float32),
        randomization=untrained_correlation(estimator, X[:_CHECKED], method),
        examples=examples,
        example_graphs=np.asarray(X[examples], dtype=np.float32),
        example_reconstructions=estimator.reconstruct(X[examples]) if has_decoder else None,
        representation=np.asarray(estimator.transform(X), np.float32) if hasattr(estimator, "transform") else None,
        templates=_explain_templates(estimator, X, codes) if find_layer(estimator) is not None else None,
        motifs=explain_motifs(estimator, X),
    )


def explain_refits(
    estimator: Any,
    graphs: ArrayLike,
    labels: ArrayLike,
    folds: int = 5,
    method: str = "gradient",
    random_state: int = 0,
    prepare: Prepare | None = None,
) -> Iterator[tuple[FitExplanation, NDArray[np.int64]]]:
    """Fit a clone of the estimator to all stratified folds but one, and explain it on the remaining fold.

    ``labels``, ``method`` and the others are those of :func:`explain_fit`; fit number i uses the
    seed ``random_state + i``. If graphs have to be prepared, ``prepare(train, test)`` returns those of both parts,
    prepared as the training part says. Yields each explanation with the indices ``(n_test,)`` of the graphs that the
    fit did not see. Input is checked before the first fit.
    """
    X = check_graphs(graphs)
    check_number("folds", folds, low=2, integer=True)
    classes, codes = check_labels(labels, len(X))
    counts = np.bincount(codes)
    if counts.min() < folds:
        raise InputError(
            f"folds={folds} needs {folds} graphs of each class, but class {classes[counts.argmin()]} has "
            f"{counts.min()}; use fewer folds."
        )
    splits = StratifiedKFold(folds, shuffle=True, random_state=random_state).split(codes, codes)

    # Class scores are explained, not probabilities; but calibration also weighs the two forms of Iso-CapsNet.
    changes = {"calibrate": False} if "calibrate" in estimator.get_params() else {}
    if getattr(estimator, "windows", None) == "auto" and estimator.form_weights_[1] > 0:
        changes = {}

    def explain_fold(fold: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> FitExplanation:
        enter_stage("refit", fold + 1, folds)
        refit = clone(estimator).set_params(random_state=random_state + fold, **changes)
        inside, outside = (X[train], X[test]) if prepare is None else prepare(train, test)
        return explain_fit(refit.fit(inside, classes[codes[train]]), outside, classes[codes[test]], method)

    return ((explain_fold(fold, train, test), test) for fold, (train, test) in enumerate(splits))


def _explain_templates(estimator: Any, X: NDArray[Any], codes: NDArray[np.int64]) -> Templates:
    matrices, stride, n_classes = estimator.templates_, find_layer(estimator).stride, len(estimator.classes_)
    windows = account_for_windows(estimator, X)
    per_class = [_summarize_class(windows, codes == code) for code in range(n_classes)]
    class_scores, orientation, orientation_share = (np.stack(parts) for parts in zip(*per_class, strict=True))
    return Templates(
        matrices=matrices,
        stride=stride,
        template_evidence=windows.evidence.sum(axis=(3, 4)),
        region_evidence=over_regions(windows.evidence, X.shape[1], matrices.shape[-1], stride),
        unattributed=windows.unattributed,
        window_separation=separation(windows.evidence, codes, n_classes).astype(np.float32),
        window_effect=effect_size(windows.evidence, codes, n_classes).astype(np.float32),
        window_influence=windows.evidence.std(axis=0).mean(axis=0),
        class_scores=class_scores,
        orientation=orientation,
        orientation_share=orientation_share,
    )


def region_coverage(n_windows: int, n_nodes: int, kernel_size: int, stride: int) -> NDArray[np.float64]:
    """Which window positions contain which node ``(n_windows, n_nodes)``, each column divided by its sum.

    The column of a node in no window is zero.
    """
    first = stride * np.arange(n_windows)[:, None]
    inside = (np.arange(n_nodes) >= first) & (np.arange(n_nodes) < first + kernel_size)
    return np.asarray(inside / np.maximum(inside.sum(axis=0), 1))


def over_regions(evidence: NDArray[Any], n_nodes: int, kernel_size: int, stride: int) -> NDArray[np.float32]:
    """Evidence of windows ``(..., n, n)`` to evidence of the nodes that they contain ``(..., n_nodes)``."""
    coverage = region_coverage(evidence.shape[-1], n_nodes, kernel_size, stride)
    return np.asarray((evidence.sum(axis=-1) + evidence.sum(axis=-2)) @ coverage, dtype=np.float32)


def _summarize_class(
    windows: WindowEvidence, members: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
    """Mean score, most frequent permutation and its share over the members; NaN, -1 and 0 without members."""
    if not members.any():
        shape = windows.scores.shape[1:]
        return np.full(shape, np.nan, np.float32), np.full(shape, -1, np.int64), np.zeros(shape, np.float32)
    winners, counts = mode(windows.permutations[members], axis=0)
    share = (counts / members.sum()).astype(np.float32)
    return windows.scores[members].mean(axis=0, dtype=np.float32), winners.astype(np.int64), share


def describe_forms(fits: Sequence[FitExplanation]) -> list[str]:
    """A sentence about the paper's network and one about the motif form, if they do not contribute to all fits."""
    weights = np.array([(1.0, 0.0) if fit.motifs is None else fit.motifs.form_weights for fit in fits])
    if not weights[:, 1].any():
        return []
    notes = []
    has_templates = np.array([fit.templates is not None for fit in fits])
    if n_without := int((has_templates & (weights[:, 0] == 0)).sum()):
        where = "" if n_without == len(fits) else f" in {n_without} of {len(fits)} fits"
        notes.append(f"The network of the paper has weight 0{where}: its templates do not contribute to the scores.")
    if n_without := int((weights[:, 1] == 0).sum()):
        notes.append(f"The motif form has weight 0 in {n_without} of {len(fits)} fits.")
    if n_both := int((has_templates & (weights > 0).all(axis=1)).sum()):
        notes.append(
            f"The paper's network and the motif form both contribute to the scores in {n_both} of {len(fits)} fits."
        )
    return notes
