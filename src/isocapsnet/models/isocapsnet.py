"""Iso-CapsNet: the isomorphic capsule network of Zhang (2022), arXiv 2206.13465."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from torch import nn

from isocapsnet._validation import InputError, check_number
from isocapsnet.functional.isomorphic import check_exact_size
from isocapsnet.functional.permutations import MAX_NUMBERED_SIZE
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._capsules import MarginReached
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
from isocapsnet.models._templates import TemplateClassifier
from isocapsnet.nn import IsoCapsNet
from isocapsnet.nn.capsule import MAX_ROUTING_ITERATIONS, RESIDUAL_INPUTS, WEIGHT_SHARING
from isocapsnet.nn.isocapsnet import MATCHING

# Eigenvectors of windows up to this size are kept during a fit, so that large templates need no GB of memory for them.
_KEPT_BYTES = 128 * 1024**2


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
class IsoCapsNetClassifier(_WithoutFormulation, TemplateClassifier):
    """Isomorphic capsule network (Zhang 2022).

    Learned templates are matched with every window of the adjacency matrix over all node permutations; the match
    score and the winning permutation of each window become capsules, which are routed to one capsule per class. The
    length of a class capsule is the class score. Weighted and negative edges enter as they are.

    Windows are contiguous ranges of nodes, so the model depends on the order of the nodes. With ``stride=kernel_size``
    the scores do not depend on the orientation of a pattern inside its window; with overlapping windows they do.

    Parameters
    ----------
    n_templates : int
        c, the number of learned templates.
    kernel_size : int
        k, nodes per template. Time grows with k!; an exact match supports at most 9.
    stride : int
        Distance between neighbouring windows.
    matching : {"exact", "spectral"}
        All k! permutations, or eigenvectors and an assignment, for templates of up to 20 nodes.
    weight_sharing : {"window", "template"}
        Routing weights of each window, or shared by all windows: fewer, but blind to the position of a pattern.
    primary_size : int, optional
        Size of the primary capsules; the default is k².
    capsule_size : int
        Size of the class capsules.
    routing_iterations : int
    gamma : float
        Padding of the zeros of a permutation, between -1 and 1.
    residual : bool
        Add capsules computed from the scores alone.
    residual_input : {"softmax", "scores"}
    residual_sizes, decoder_sizes : sequence of int
        Hidden layer sizes.
    reconstruction_weight : float
        δ, the weight of the reconstruction loss. With 0 there is no decoder.
    template_scale : float
        Standard deviation of the initial templates, in units of the edges' own.
    tolerance : float
        Stop when the mean margin loss of the training graphs falls below this value: their labels then have nothing
        left to teach. With 0, train for all ``max_epochs``.
    {training}

    Attributes
    ----------
    templates_ : array (n_templates, k, k)
        Learned templates, in scaled units.
    {fitted}

    Examples
    --------
    >>> from isocapsnet import IsoCapsNetClassifier, make_planted_graphs
    >>> planted = make_planted_graphs(n_graphs=60, effect="existence", random_state=0)
    >>> model = IsoCapsNetClassifier(max_epochs=20, random_state=0).fit(planted.graphs, planted.labels)
    >>> model.predict_proba(planted.graphs[:2]).shape
    (2, 2)
    """

    version: ClassVar[int] = 2

    _former_default: ClassVar[tuple[str, Any] | None] = ("formulation", "paper")
    _search_space: ClassVar = {"learning_rate": [3e-4, 1e-3]}
    _smaller_model_hint = 'use weight_sharing="template", fewer templates, a larger stride or smaller decoder_sizes'

    n_templates: Count = 4
    stride: Count = 1
    matching: Annotated[str, one_of(*MATCHING)] = "exact"
    weight_sharing: Annotated[str, one_of(*WEIGHT_SHARING)] = "window"
    primary_size: Count | None = None
    routing_iterations: Annotated[int, in_range(0, MAX_ROUTING_ITERATIONS, integer=True)] = 3
    gamma: Annotated[float, in_range(-1, 1)] = -0.1
    residual: Flag = True
    residual_input: Annotated[str, one_of(*RESIDUAL_INPUTS)] = "softmax"
    residual_sizes: SizesOrEmpty = (64,)
    template_scale: Positive = 1.0
    learning_rate: Positive = 3e-4
    batch_size: Count = 64
    max_epochs: Count = 100
    tolerance: NotNegative = 1e-3
    patience: Count | None = 20

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        if self.matching == "exact":
            check_exact_size(self.kernel_size, "matching='spectral'")
        else:
            check_number("kernel_size", self.kernel_size, low=1, high=MAX_NUMBERED_SIZE, integer=True)
        if self.routing_iterations == 0 and not self.residual:
            raise InputError("routing_iterations=0 and residual=False leave no class capsules; change one of them.")

    def _own_callbacks(self) -> list[Any]:
        return [MarginReached(self.tolerance)] if self.tolerance > 0 else []

    def _build_store(self, X: Any, codes: Any, *others: Any) -> GraphStore:
        if self.matching == "exact":
            return super()._build_store(X, codes, *others)
        device, X_unlabeled = others
        graphs = X, codes, self.scaler_, device, X_unlabeled
        return SpectralStore(self.kernel_size, self.stride, True, *graphs, kept_bytes=_KEPT_BYTES)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        return with_parameters(IsoCapsNet, self, n_nodes, n_classes, reconstruct=self.reconstruction_weight > 0)
