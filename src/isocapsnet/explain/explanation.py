"""Everything that one fitted network shows on graphs it did not train on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import mode

from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError, check_graphs
from isocapsnet.explain.attribution import attribute_edges, is_network, randomization_check
from isocapsnet.explain.contrasts import effect_size, separation
from isocapsnet.explain.windows import find_layer, window_evidence

# Graphs per class that are kept with their reconstructions, for people to look at.
_EXAMPLES = 6
# Graphs on which attributions are compared with those of an untrained network.
_CHECKED = 32


@dataclass(frozen=True)
class Templates:
    """What the templates of an isomorphic network find in graphs it did not train on.

    Evidence is a window's contribution to the margin of the class scores (:mod:`isocapsnet.explain.windows`); with two
    classes there is one contrast, the second class against the first, else one per class.

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
        Standard deviation of the evidence: where the network looks, whatever the labels are.
    class_evidence : array (n_classes, n_templates, n, n)
        Mean evidence (of the first contrast for two classes, of the class's own else) over the graphs of a class.
    class_scores : array (n_classes, n_templates, n, n)
        Mean match score over the graphs of a class, 1 at a perfect match.
    orientation : array (n_classes, n_templates, n, n), int
        The permutation found most often, as a row of ``itertools.permutations(range(k))``.
    orientation_share : array (n_classes, n_templates, n, n)
        The part of the graphs in which it was found.
    """

    matrices: NDArray[np.float32]
    stride: int
    template_evidence: NDArray[np.float32]
    region_evidence: NDArray[np.float32]
    unattributed: NDArray[np.float32]
    window_separation: NDArray[np.float32]
    window_effect: NDArray[np.float32]
    window_influence: NDArray[np.float32]
    class_evidence: NDArray[np.float32]
    class_scores: NDArray[np.float32]
    orientation: NDArray[np.int64]
    orientation_share: NDArray[np.float32]


@dataclass(frozen=True)
class Explanation:
    """What one fitted network shows on graphs it did not train on.

    Attributes
    ----------
    classes : array (n_classes,)
        Labels as text, in the order of the codes.
    positions : array (n_graphs,)
        Which of the given graphs are explained: those of classes that the network knows.
    codes : array (n_graphs,)
        The class of each.
    edges : array (n_nodes, n_nodes)
        How much each edge separates the classes: its attribution in the class minus its attribution in the rest.
    randomization : float
        Rank correlation of attributions with those of an untrained network
        (:func:`~isocapsnet.explain.attribution.randomization_check`).
    representation : array (n_graphs, size) or None
        What ``transform`` returns; of capsule networks the class capsules, one after another.
    examples : array (n_examples,)
        A few graphs of each class, as indices into ``codes`` and ``positions``.
    example_graphs, example_reconstructions : array (n_examples, n_nodes, n_nodes)
        These graphs and what the decoder makes of them, in original units; no reconstructions without a decoder.
    templates : Templates or None
        None for a network without templates.
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

    @property
    def n_nodes(self) -> int:
        return len(self.edges)


@one_thread()
def explain(estimator: Any, graphs: ArrayLike, labels: ArrayLike, method: str = "gradient") -> Explanation:
    """Explain a fitted network on labelled graphs, best on ones that it did not train on.

    Parameters
    ----------
    estimator : NetworkClassifier
    graphs : array-like (n_graphs, n_nodes, n_nodes)
    labels : array-like (n_graphs,)
        A label that the network does not know leaves its graph out of all comparisons between classes.
    method : {"gradient", "integrated"}
        How edges are attributed.
    """
    if not is_network(estimator):
        raise InputError(f"{type(estimator).__name__} is no fitted network, so there is nothing to explain.")
    X = check_graphs(graphs, n_nodes=estimator.n_nodes_in_)
    codes = _encode(np.asarray(labels), estimator.classes_)
    if len(codes) != len(X):
        raise InputError(f"There are {len(X)} graphs but {len(codes)} labels.")
    positions = np.flatnonzero(codes >= 0)
    if not len(positions):
        raise InputError(
            f"None of the graphs has a class that the model knows: {', '.join(map(str, estimator.classes_))}."
        )
    X, codes, n_classes = X[positions], codes[positions], len(estimator.classes_)
    examples = np.sort(np.concatenate([np.flatnonzero(codes == code)[:_EXAMPLES] for code in range(n_classes)]))
    has_decoder = hasattr(estimator, "reconstruct") and estimator.reconstruction_weight > 0
    return Explanation(
        classes=np.array([str(label) for label in estimator.classes_]),
        positions=positions,
        codes=codes,
        edges=separation(attribute_edges(estimator, X, method), codes, n_classes).astype(np.float32),
        randomization=randomization_check(estimator, X[:_CHECKED], method),
        examples=examples,
        example_graphs=np.asarray(X[examples], dtype=np.float32),
        example_reconstructions=estimator.reconstruct(X[examples]) if has_decoder else None,
        representation=np.asarray(estimator.transform(X), np.float32) if hasattr(estimator, "transform") else None,
        templates=_explain_templates(estimator, X, codes) if find_layer(estimator) is not None else None,
    )


def _encode(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Positions in ``classes``; -1 for other labels."""
    position = {label: code for code, label in enumerate(classes.tolist())}
    return np.array([position.get(label, -1) for label in labels.tolist()], dtype=np.int64)


def _explain_templates(estimator: Any, X: NDArray[Any], codes: NDArray[np.int64]) -> Templates:
    matrices, stride, n_classes = estimator.templates_, find_layer(estimator).stride, len(estimator.classes_)
    found = window_evidence(estimator, X)
    per_class = [codes == code for code in range(n_classes)]
    own = found.evidence.swapaxes(0, 1)[[0] * n_classes if n_classes == 2 else range(n_classes)]
    orientation, share = zip(*(_most_frequent(found.permutations[members]) for members in per_class), strict=True)
    return Templates(
        matrices=matrices,
        stride=stride,
        template_evidence=found.evidence.sum(axis=(3, 4)),
        region_evidence=over_regions(found.evidence, X.shape[1], matrices.shape[-1], stride),
        unattributed=found.unattributed,
        window_separation=separation(found.evidence, codes, n_classes).astype(np.float32),
        window_effect=effect_size(found.evidence, codes, n_classes).astype(np.float32),
        window_influence=found.evidence.std(axis=0).mean(axis=0),
        class_evidence=np.stack([_mean(values[members]) for values, members in zip(own, per_class, strict=True)]),
        class_scores=np.stack([_mean(found.scores[members]) for members in per_class]),
        orientation=np.stack(orientation),
        orientation_share=np.stack(share),
    )


def region_coverage(n_windows: int, n_nodes: int, kernel_size: int, stride: int) -> NDArray[np.float64]:
    """Which window positions contain which node ``(n_windows, n_nodes)``, each column divided by its sum.

    A node that no window reaches has a column of zeros.
    """
    first = stride * np.arange(n_windows)[:, None]
    inside = (np.arange(n_nodes) >= first) & (np.arange(n_nodes) < first + kernel_size)
    return np.asarray(inside / np.maximum(inside.sum(axis=0), 1))


def over_regions(evidence: NDArray[Any], n_nodes: int, kernel_size: int, stride: int) -> NDArray[np.float32]:
    """Evidence ``(..., n, n)`` of windows to evidence ``(..., n_nodes)`` of the nodes that they lie over."""
    coverage = region_coverage(evidence.shape[-1], n_nodes, kernel_size, stride)
    return np.asarray((evidence.sum(axis=-1) + evidence.sum(axis=-2)) @ coverage, dtype=np.float32)


def _most_frequent(permutations: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The value found most often over graphs ``(n_graphs, ...)`` and its share; -1 and 0 without graphs."""
    if not len(permutations):
        return np.full(permutations.shape[1:], -1, np.int64), np.zeros(permutations.shape[1:], np.float32)
    found = mode(permutations, axis=0)
    return found.mode.astype(np.int64), (found.count / len(permutations)).astype(np.float32)


def _mean(values: NDArray[Any]) -> NDArray[np.float32]:
    """Over graphs ``(n_graphs, ...)``; NaN without graphs."""
    if not len(values):
        return np.full(values.shape[1:], np.nan, np.float32)
    return np.asarray(values.mean(axis=0), dtype=np.float32)
