"""Iso-CapsNet: the isomorphic capsule network of Zhang (2022), arXiv 2206.13465."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import nn

from isocapsnet._validation import InputError, check_number
from isocapsnet.functional.eigenvectors import LAPACK_SIZE
from isocapsnet.functional.isomorphic import check_exact_size, check_exact_time
from isocapsnet.functional.permutations import MAX_NUMBERED_SIZE
from isocapsnet.functional.spectral import PROJECTIONS
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._capsules import MarginReached
from isocapsnet.models._motifs import TwoForms
from isocapsnet.models._optimizer import Adam
from isocapsnet.models._parameters import (
    Count,
    Flag,
    NotNegative,
    Positive,
    SizesOrEmpty,
    estimator,
    in_range,
    one_of,
    with_parameters,
)
from isocapsnet.models._spectral_store import SpectralStore
from isocapsnet.nn import IsoCapsNet
from isocapsnet.nn.capsule import MAX_ROUTING_ITERATIONS, RESIDUAL_INPUTS, WEIGHT_SHARING
from isocapsnet.nn.isocapsnet import MATCHING, ROUTING_OVER
from isocapsnet.nn.motifs import MOTIF_WINDOWS

TEMPLATE_INITS = ("normal", "windows")
_RESIDUAL_ONLY = ("residual_input", "residual_sizes", "residual_per_class")
_ROUTING_ONLY = ("routing_over", "weight_sharing", "primary_size", "gamma")
# Parameters of one form alone.
_MOTIFS_ONLY = ("n_motifs", "motif_size", "deviation_from")
_PAPER_ONLY = (
    *("n_templates", "kernel_size", "stride", "matching", "projection", "weight_sharing", "primary_size"),
    *("capsule_size", "routing_iterations", "routing_over", "gamma", "residual", "residual_input", "residual_sizes"),
    *("residual_per_class", "decoder_sizes"),
    *("reconstruction_weight", "template_init", "template_scale", "learning_rate", "weight_decay", "tolerance"),
)

# By default, a pose of more entries is reduced to blocks, as g in Eq. 4 is meant for a large k².
_MOST_ENTRIES = 81

# Eigenvectors of windows up to this size are kept during a fit, so that large templates need no GB of memory for them.
_KEPT_BYTES = 64 * 1024**2


def check_primary_size(name: str, value: Any) -> None:
    """Raise InputError for anything but a positive whole number or "auto"."""
    if isinstance(value, str) and value != "auto":
        raise InputError(f'{name}={value!r} is unknown; use "auto", None or a whole number.')
    if not isinstance(value, str):
        check_number(name, value, low=1, integer=True)


class _WithoutFormulation:
    """Refuses a parameter of earlier versions with the name of its replacement."""

    def __new__(cls, **parameters: Any) -> Any:
        cls.refuse_moved(parameters)
        return super().__new__(cls)

    @classmethod
    def refuse_moved(cls, parameters: Mapping[str, Any]) -> None:
        """Refuse ``formulation``."""
        if "formulation" in parameters:
            raise InputError(
                "IsoCapsNetClassifier has no parameter formulation: use ReleasedIsoCapsNetClassifier (the method "
                'isocapsnet-released) instead of formulation="released", and omit formulation="paper".'
            )


@estimator
class IsoCapsNetClassifier(_WithoutFormulation, TwoForms):
    """Isomorphic capsule network (Zhang 2022).

    Learned templates are matched with every window of the adjacency matrix over all node permutations; the match
    score and the winning permutation of each window become capsules, which are routed to one capsule per class. The
    length of a class capsule is the class score. Weighted and negative edges enter as they are.

    The windows of the paper are contiguous ranges of nodes, so its network depends on the order of the nodes and sees
    patterns that have a fixed place. With ``stride=kernel_size`` its scores do not depend on the orientation of a
    pattern inside its window; with overlapping windows they do. A second network, the motif form, sees patterns that
    have another place in every subject (:class:`~isocapsnet.nn.MotifNetwork`). Its templates are matched with sets of
    nodes that strong edges connect, which do not depend on the order of the nodes unless edges are equally strong, or
    with all ranges of neighbouring nodes, which also shows weak patterns if the nodes of a pattern follow each other.

    Parameters
    ----------
    windows : {"auto", "contiguous", "neighborhood", "diagonal"}
        The network of the paper (``"contiguous"``), the motif form with sets of nodes that strong edges connect
        (``"neighborhood"``) or with ranges of neighbouring nodes (``"diagonal"``), or the network of the paper and the
        motif form that helps more, if one does (``"auto"``). Class scores of two networks are added with weights that
        are fitted to held-out training graphs, as the calibration is. Without ``calibrate``, ``"auto"`` is
        ``"contiguous"``.
    n_motifs : int
        Templates of the motif form. They start from windows of training graphs. This form makes half as many passes
        over the graphs as ``max_epochs`` says.
    motif_size : int
        Nodes of each of these templates, from 2 to 6.
    deviation_from : {"mean_graph", "mean_edge"}
        The motif form looks at deviations from the mean training graph, or from the mean of its edges: choose this if
        node i of one graph is not node i of another.
    template_init : {"normal", "windows"}
        Whether the templates of the paper's network start from random numbers or from windows of training graphs.
    template_learning_rate : float, optional
        Learning rate of the templates, without weight decay. The default is that of the other weights in the paper's
        network, and 0.02 in the motif form.
    n_templates : int
        The number of learned templates; c in the paper.
    kernel_size : int
        Nodes per template; k in the paper. Time grows with k!; an exact match supports at most 9.
    stride : int
        Distance between neighbouring windows.
    matching : {"exact", "spectral"}
        All k! permutations, or eigenvectors and an assignment, for templates of up to 20 nodes.
    projection : {"permutation", "orthogonal", "none"}
        The pose P of a spectral match: a permutation, U₂SU₁ᵀ as Eq. 3 of the paper has it, or ``|U₂||U₁|ᵀ``; see
        :func:`~isocapsnet.functional.spectral_match`.
    weight_sharing : {"window", "template"}
        Routing weights of each window, or shared by all windows: fewer, but blind to the position of a pattern.
    primary_size : int, None or "auto"
        The entries of a primary capsule, to which a learned linear map g reduces the k² of a pose. With None, there is
        no map. ``"auto"`` is None for templates of up to nine nodes, as in the paper. For larger ones, it is 16 without
        anything to learn: how many nodes of the template are in each of 4 x 4 blocks of the window. With k² entries,
        the weights of all windows would be a hundred million numbers.
    capsule_size : int
        Size of the class capsules.
    routing_iterations : int
        Iterations of dynamic routing.
    routing_over : {"classes", "windows"}
        What the couplings are normalised over: the classes, or the windows, as Eq. 7 is printed.
    gamma : float
        Padding of the zeros of a permutation, between -1 and 1.
    residual : bool
        Add capsules computed from the scores alone.
    residual_input : {"softmax", "scores"}
        What these capsules are computed from: the softmax of the scores over windows, or the scores.
    residual_sizes, decoder_sizes : sequence of int
        Hidden layer sizes.
    residual_per_class : bool
        Whether each class has an MLP of its own, as Eq. 8 of the paper has it, or all share the hidden layers.
    reconstruction_weight : float
        Weight of the reconstruction loss; δ in the paper. With 0 there is no decoder.
    template_scale : float
        Standard deviation of the initial templates, in units of the edges' own.
    tolerance : float
        Stop when the mean margin loss of the training graphs falls below this value: their labels then have nothing
        left to teach. With 0, train for all ``max_epochs``.
    {training}

    Attributes
    ----------
    templates_ : array (n_templates, k, k)
        Learned templates, in scaled units. Without the network of the paper, those of the motif form.
    motifs_ : array (n_motifs, motif_size, motif_size)
        Learned templates of the motif form, in scaled units: deviations from the mean.
    forms_ : tuple of str
        The networks of the model: ``"contiguous"``, that of the paper, and ``"neighborhood"`` or ``"diagonal"``, a
        motif form with these windows.
    form_weights_ : tuple of float
        Weights of the paper's network and of the motif form in the class scores.
    {fitted}

    Examples
    --------
    >>> from isocapsnet import IsoCapsNetClassifier, make_planted_graphs
    >>> planted = make_planted_graphs(n_graphs=60, effect="existence", random_state=0)
    >>> model = IsoCapsNetClassifier(max_epochs=20, random_state=0).fit(planted.graphs, planted.labels)
    >>> model.predict_proba(planted.graphs[:2]).shape
    (2, 2)
    """

    version: ClassVar[int] = 5
    # Later versions added motif forms and smaller decoders; models fitted before predict the same.
    _warned_before: ClassVar[int | None] = 2

    _records_steps: ClassVar[bool] = True
    _search_space: ClassVar = {"learning_rate": [3e-4, 1e-3]}
    _smaller_model_hint = 'use weight_sharing="template", fewer templates, a larger stride or smaller decoder_sizes'

    template_init: Annotated[str, one_of(*TEMPLATE_INITS)] = "normal"
    n_templates: Count = 4
    stride: Count = 1
    matching: Annotated[str, one_of(*MATCHING)] = "exact"
    projection: Annotated[str, one_of(*PROJECTIONS)] = "permutation"
    weight_sharing: Annotated[str, one_of(*WEIGHT_SHARING)] = "window"
    primary_size: Annotated[int | str, check_primary_size] | None = "auto"
    routing_iterations: Annotated[int, in_range(0, MAX_ROUTING_ITERATIONS, integer=True)] = 3
    routing_over: Annotated[str, one_of(*ROUTING_OVER)] = "classes"
    gamma: Annotated[float, in_range(-1, 1)] = -0.1
    residual: Flag = True
    residual_input: Annotated[str, one_of(*RESIDUAL_INPUTS)] = "softmax"
    residual_sizes: SizesOrEmpty = (64,)
    residual_per_class: Flag = False
    template_scale: Positive = 1.0
    learning_rate: Positive = 3e-4
    batch_size: Count = 64
    max_epochs: Count = 100
    tolerance: NotNegative = 1e-3
    patience: Count | None = 20

    @property
    def results_version(self) -> int:
        """Large templates have other eigenvectors and primary capsules than in version 5."""
        return self.version + self._has_large_windows()

    def _predicts_otherwise(self, results_version: int) -> bool:
        return results_version < 6 and self._has_large_windows()

    def _has_large_windows(self) -> bool:
        """Whether the eigenvectors of windows are those of compiled rotations, and no longer LAPACK's."""
        return self.windows not in MOTIF_WINDOWS and self.matching == "spectral" and self.kernel_size > LAPACK_SIZE

    @classmethod
    def update_parameters(cls, parameters: dict[str, Any], version: int) -> dict[str, Any]:
        """Earlier versions had no motif form, and ``formulation``, of which "paper" is what is left."""
        if parameters.get("formulation") == "paper":
            parameters = {name: value for name, value in parameters.items() if name != "formulation"}
        return parameters if version >= 3 else {"windows": "contiguous", **parameters}

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        if self.matching == "exact" and self.windows not in MOTIF_WINDOWS:
            check_exact_size(self.kernel_size, "matching='spectral'")
            n_windows = max(0, (n_nodes - self.kernel_size) // self.stride + 1) ** 2
            check_exact_time(self.kernel_size, n_windows * self.n_templates, "matching='spectral'")
        elif self.matching == "spectral":
            check_number("kernel_size", self.kernel_size, low=1, high=MAX_NUMBERED_SIZE, integer=True)
        if self.routing_iterations == 0 and not self.residual:
            raise InputError("routing_iterations=0 and residual=False leave no class capsules; change one of them.")

    def _without_effect(self) -> dict[str, str]:
        reasons = super()._without_effect()
        if self.windows in MOTIF_WINDOWS:
            return reasons | dict.fromkeys(_PAPER_ONLY, f'windows="{self.windows}" leaves the network of the paper out')
        if self.matching == "exact":
            reasons["projection"] = 'matching="exact" always finds a permutation'
        if not self.residual:
            reasons |= dict.fromkeys(_RESIDUAL_ONLY, "residual=False, so there is no residual")
        elif self.residual_per_class and not self.residual_sizes:
            reasons["residual_per_class"] = "residual_sizes is empty, so the classes share no layers"
        if self.windows == "contiguous":
            reasons |= dict.fromkeys(_MOTIFS_ONLY, 'windows="contiguous" leaves the motif form out')
        elif not self.calibrate:
            reasons |= dict.fromkeys(_MOTIFS_ONLY, 'with calibrate=False, windows="auto" leaves the motif form out')
        if self.template_init == "windows":
            reasons["template_scale"] = 'template_init="windows" starts from training graphs'
        if self._primary_size() is not None:
            reasons["gamma"] = "poses are mapped to other entries, whose zeros are not replaced"
        elif self.matching == "spectral" and self.projection != "permutation":
            reasons["gamma"] = f'the poses of projection="{self.projection}" have no zeros to replace'
        if self.routing_iterations == 0:
            reasons |= dict.fromkeys(_ROUTING_ONLY, "routing_iterations=0, so nothing is routed")
        return reasons

    # -- the network of the paper ---------------------------------------------------------------------------

    def _own_callbacks(self) -> list[Any]:
        return [MarginReached(self.tolerance)] if self.tolerance > 0 else []

    def _build_optimizer(self, module: nn.Module) -> Adam:
        if self.template_learning_rate is None:
            return super()._build_optimizer(module)
        templates = module.get_parameter("isomorphic.templates")
        others = (parameter for parameter in module.parameters() if parameter is not templates)
        own = Adam([templates], self.template_learning_rate, weight_decay=0.0)
        return Adam(others, self.learning_rate, self.weight_decay, others=own)

    def _prepare(self, module: nn.Module, graphs: GraphStore) -> None:
        if self.template_init == "windows":
            some = torch.randint(len(graphs), (self.n_templates,))
            windows = (
                graphs.plain().batch(some.numpy())[0].unfold(1, self.kernel_size, 1).unfold(2, self.kernel_size, 1)
            )
            row, column = torch.randint(windows.shape[1], (2, self.n_templates))
            with torch.no_grad():
                module.get_parameter("isomorphic.templates").copy_(windows[torch.arange(len(row)), row, column])

    def _build_store(self, X: Any, codes: Any, *others: Any) -> GraphStore:
        if self.matching == "exact" or self.windows in MOTIF_WINDOWS:
            return super()._build_store(X, codes, *others)
        device, X_unlabeled = others
        graphs = X, codes, self.scaler_, device, X_unlabeled
        n_templates = self.n_templates if self.projection == "permutation" else 0
        settings = self.kernel_size, self.stride, True
        return SpectralStore(*settings, *graphs, kept_bytes=_KEPT_BYTES, n_templates=n_templates)

    def _primary_size(self) -> int | str | None:
        """``primary_size`` with "auto" replaced."""
        if self.primary_size != "auto":
            return self.primary_size
        return None if self.kernel_size**2 <= _MOST_ENTRIES else "blocks"

    def _build_aligned(self, n_nodes: int, n_classes: int) -> IsoCapsNet:
        given = {"reconstruct": self.reconstruction_weight > 0, "directed": self.directed_}
        return with_parameters(IsoCapsNet, self, n_nodes, n_classes, primary_size=self._primary_size(), **given)
