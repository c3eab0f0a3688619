"""Iso-CapsNet: the isomorphic capsule network of Zhang (2022), arXiv 2206.13465."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from isocapsnet._validation import InputError, check_number, check_option
from isocapsnet.functional.isomorphic import check_exact_size
from isocapsnet.functional.permutations import MAX_NUMBERED_SIZE
from isocapsnet.models._capsules import MarginReached
from isocapsnet.models._encoder import check_sizes
from isocapsnet.models._parameters import estimator
from isocapsnet.models._templates import TemplateClassifier
from isocapsnet.nn import IsoCapsNet
from isocapsnet.nn.capsule import MAX_ROUTING_ITERATIONS, RESIDUAL_INPUTS, WEIGHT_SHARING
from isocapsnet.nn.isocapsnet import MATCHING


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
    classes_ : array (n_classes,)
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

    n_templates: int = 4
    kernel_size: int = 4
    stride: int = 1
    matching: str = "exact"
    weight_sharing: str = "window"
    primary_size: int | None = None
    capsule_size: int = 16
    routing_iterations: int = 3
    gamma: float = -0.1
    residual: bool = True
    residual_input: str = "softmax"
    residual_sizes: Sequence[int] = (64,)
    decoder_sizes: Sequence[int] = (512, 1024)
    reconstruction_weight: float = 0.0005
    template_scale: float = 1.0
    learning_rate: float = 3e-4
    batch_size: int = 64
    max_epochs: int = 100
    tolerance: float = 1e-3
    patience: int | None = 20

    @classmethod
    def search_space(cls) -> dict[str, list[Any]]:
        """Candidate values for nested tuning."""
        return {"learning_rate": [3e-4, 1e-3]}

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        check_option("matching", self.matching, MATCHING)
        check_option("weight_sharing", self.weight_sharing, WEIGHT_SHARING)
        check_option("residual", self.residual, (True, False))
        check_option("residual_input", self.residual_input, RESIDUAL_INPUTS)
        for name in ("n_templates", "stride", "capsule_size"):
            check_number(name, getattr(self, name), low=1, integer=True)
        check_number("routing_iterations", self.routing_iterations, low=0, high=MAX_ROUTING_ITERATIONS, integer=True)
        check_number("gamma", self.gamma, low=-1, high=1)
        check_number("reconstruction_weight", self.reconstruction_weight, low=0)
        check_number("tolerance", self.tolerance, low=0)
        check_number("template_scale", self.template_scale, low=0, open_low=True)
        if self.primary_size is not None:
            check_number("primary_size", self.primary_size, low=1, integer=True)
        check_sizes("residual_sizes", self.residual_sizes, may_be_empty=True)
        check_sizes("decoder_sizes", self.decoder_sizes, may_be_empty=True)
        if self.matching == "exact":
            check_exact_size(self.kernel_size, "matching='spectral'")
        else:
            check_number("kernel_size", self.kernel_size, low=1, high=MAX_NUMBERED_SIZE, integer=True)
        if self.routing_iterations == 0 and not self.residual:
            raise InputError("routing_iterations=0 and residual=False leave no class capsules; change one of them.")

    def _own_callbacks(self) -> list[Any]:
        return [MarginReached(self.tolerance)] if self.tolerance > 0 else []

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        return IsoCapsNet(
            n_nodes,
            n_classes,
            n_templates=self.n_templates,
            kernel_size=self.kernel_size,
            stride=self.stride,
            matching=self.matching,
            weight_sharing=self.weight_sharing,
            primary_size=self.primary_size,
            capsule_size=self.capsule_size,
            routing_iterations=self.routing_iterations,
            gamma=self.gamma,
            residual=self.residual,
            residual_input=self.residual_input,
            residual_sizes=self.residual_sizes,
            decoder_sizes=self.decoder_sizes,
            reconstruct=self.reconstruction_weight > 0,
            template_scale=self.template_scale,
        )

    def _smaller_model_hint(self) -> str:
        return 'use weight_sharing="template", fewer templates, a larger stride or smaller decoder_sizes'
