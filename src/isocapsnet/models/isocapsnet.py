"""Iso-CapsNet: the isomorphic capsule network of Zhang (2022), arXiv 2206.13465."""

from collections.abc import Mapping
from copy import copy
from dataclasses import field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError, check_number
from isocapsnet.functional import safe_norm
from isocapsnet.functional.isomorphic import check_exact_size
from isocapsnet.functional.permutations import MAX_NUMBERED_SIZE
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._calibration import fit_weights
from isocapsnet.models._capsules import MarginReached
from isocapsnet.models._motifs import MotifForm, describe_motifs
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
from isocapsnet.models._templates import Matches, TemplateClassifier
from isocapsnet.models._training import Adam, History, outputs
from isocapsnet.nn import CapsuleOutput, IsoCapsNet, MotifNetwork, MotifOutput
from isocapsnet.nn.capsule import MAX_ROUTING_ITERATIONS, RESIDUAL_INPUTS, WEIGHT_SHARING
from isocapsnet.nn.isocapsnet import MATCHING, ROUTING_OVER
from isocapsnet.nn.motifs import DEVIATIONS

WINDOWS = ("auto", "contiguous", "neighborhood")
TEMPLATE_INITS = ("normal", "windows")
# All permutations of a motif are tried at once.
MAX_MOTIF_SIZE = 6


class MotifPlaces(NamedTuple):
    """Where each motif matches best.

    Attributes
    ----------
    distances : array (n_graphs, n_motifs)
        Between the motif and its best window, in units of the root mean square of the initial motifs.
    nodes : array (n_graphs, n_motifs, motif_size), int64
        The nodes of that window, in the order of the rows of the motif.
    """

    distances: NDArray[np.float32]
    nodes: NDArray[np.int64]


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

    The windows of the paper are contiguous ranges of nodes, so its network depends on the order of the nodes and sees
    patterns that have a fixed place. With ``stride=kernel_size`` its scores do not depend on the orientation of a
    pattern inside its window; with overlapping windows they do. A second network, the motif form, matches templates
    with sets of nodes that strong edges connect (:class:`~isocapsnet.nn.MotifNetwork`). It does not depend on the order
    of the nodes and sees patterns that have another place in every subject.

    Parameters
    ----------
    windows : {"auto", "contiguous", "neighborhood"}
        The network of the paper (``"contiguous"``), the motif form (``"neighborhood"``), or both (``"auto"``). With
        both, their class scores are added with weights that are fitted to held-out training graphs, as the
        calibration is; a network that does not help has the weight 0. Without ``calibrate``, ``"auto"`` is
        ``"contiguous"``.
    n_motifs : int
        Templates of the motif form. They start from windows of training graphs.
    motif_size : int
        Nodes of each of these templates, from 2 to 6.
    motif_epochs : int
        Passes over the training graphs of the motif form, if ``max_epochs`` is not smaller.
    deviation_from : {"mean_graph", "mean_edge"}
        The motif form looks at deviations from the mean training graph, or from the mean of its edges: choose this if
        node i of one graph is not node i of another.
    template_init : {"normal", "windows"}
        Whether the templates of the paper's network start from random numbers or from windows of training graphs.
    template_learning_rate : float, optional
        Learning rate of the templates, without weight decay. The default is that of the other weights in the paper's
        network, and 0.02 in the motif form.
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
    routing_over : {"classes", "windows"}
        What the couplings are normalised over: the classes, or the windows, as Eq. 7 is printed.
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
        Learned templates, in scaled units. With ``windows="neighborhood"`` those of the motif form.
    motifs_ : array (n_motifs, motif_size, motif_size)
        Learned templates of the motif form, in scaled units: deviations from the mean.
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

    version: ClassVar[int] = 3

    _search_space: ClassVar = {"learning_rate": [3e-4, 1e-3]}
    _smaller_model_hint = 'use weight_sharing="template", fewer templates, a larger stride or smaller decoder_sizes'

    windows: Annotated[str, one_of(*WINDOWS)] = "auto"
    n_motifs: Count = 32
    motif_size: Annotated[int, in_range(2, MAX_MOTIF_SIZE, integer=True)] = 4
    motif_epochs: Count = 50
    deviation_from: Annotated[str, one_of(*DEVIATIONS)] = "mean_graph"
    template_init: Annotated[str, one_of(*TEMPLATE_INITS)] = "normal"
    template_learning_rate: Positive | None = None
    n_templates: Count = 4
    stride: Count = 1
    matching: Annotated[str, one_of(*MATCHING)] = "exact"
    weight_sharing: Annotated[str, one_of(*WEIGHT_SHARING)] = "window"
    primary_size: Count | None = None
    routing_iterations: Annotated[int, in_range(0, MAX_ROUTING_ITERATIONS, integer=True)] = 3
    routing_over: Annotated[str, one_of(*ROUTING_OVER)] = "classes"
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

    form_weights_: tuple[float, float] = field(init=False)

    @classmethod
    def update_parameters(cls, parameters: dict[str, Any], version: int) -> dict[str, Any]:
        """Earlier versions had no motif form, and ``formulation``, of which "paper" is what is left."""
        if parameters.get("formulation") == "paper":
            parameters = {name: value for name, value in parameters.items() if name != "formulation"}
        return parameters if version >= 3 else {"windows": "contiguous", **parameters}

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Class capsules of each graph, and the scores of the motifs: ``(n_graphs, n_features)``.

        There are ``n_classes * capsule_size`` entries of capsules, if there is the network of the paper, and then
        ``n_motifs`` scores, if there is the motif form.
        """
        features = []
        for output in self._forward(self._check_fitted(X)):
            motifs = output if isinstance(output, MotifOutput) else output.motifs
            parts = [] if isinstance(output, MotifOutput) else [output.capsules.flatten(1)]
            features.append(torch.cat([*parts, *([] if motifs is None else [motifs.scores])], dim=1).cpu().numpy())
        return np.concatenate(features)

    def reconstruct(self, X: ArrayLike) -> NDArray[np.float32]:
        """Each graph as decoded from its capsules, in original units: ``(n_graphs, n_nodes, n_nodes)``."""
        self._check_aligned("a decoder")
        return super().reconstruct(X)

    def match(self, X: ArrayLike) -> Matches:
        """The score and the winning permutation of every template in every window."""
        self._check_aligned("contiguous windows")
        return super().match(X)

    def _check_aligned(self, what: str) -> None:
        if self.windows == "neighborhood":
            raise InputError(f'A model with windows="neighborhood" does not have {what}; see match_motifs.')

    @one_thread()
    def match_motifs(self, X: ArrayLike) -> MotifPlaces:
        """The best match of every motif in every graph."""
        graphs = self._check_fitted(X)
        network = self.motif_network_
        device = network.templates.device
        parts = []
        with torch.inference_mode():
            for start in range(0, len(graphs), self.batch_size):
                batch = self.scaler_.transform(graphs[start : start + self.batch_size])
                parts.append([part.cpu().numpy() for part in network.locate(torch.from_numpy(batch).to(device))])
        return MotifPlaces(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    @property
    def motifs_(self) -> NDArray[np.float32]:
        """Learned templates of the motif form ``(n_motifs, motif_size, motif_size)``, in scaled units."""
        motifs = self.motif_network_
        return (motifs.templates * motifs.scale).detach().cpu().numpy()

    @property
    def motif_network_(self) -> MotifNetwork:
        """The motif form."""
        motifs = self.module_ if self.windows == "neighborhood" else getattr(self.module_, "motifs", None)
        if not isinstance(motifs, MotifNetwork):
            raise AttributeError('This model has no motif form; fit it with windows="auto" or windows="neighborhood".')
        return motifs

    @property
    def templates_(self) -> NDArray[np.float32]:
        """Learned templates ``(n_templates, k, k)``, in scaled units."""
        return self.motifs_ if self.windows == "neighborhood" else super().templates_

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        if self.matching == "exact":
            check_exact_size(self.kernel_size, "matching='spectral'")
        else:
            check_number("kernel_size", self.kernel_size, low=1, high=MAX_NUMBERED_SIZE, integer=True)
        if self.routing_iterations == 0 and not self.residual:
            raise InputError("routing_iterations=0 and residual=False leave no class capsules; change one of them.")
        if self.windows == "neighborhood" and self.motif_size > n_nodes:
            raise InputError(
                f"motif_size={self.motif_size} is larger than the graphs, which have {n_nodes} nodes; choose a smaller "
                "motif_size."
            )

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
            windows = graphs.batch(some.numpy())[0].unfold(1, self.kernel_size, 1).unfold(2, self.kernel_size, 1)
            row, column = torch.randint(windows.shape[1], (2, self.n_templates))
            with torch.no_grad():
                module.get_parameter("isomorphic.templates").copy_(windows[torch.arange(len(row)), row, column])

    # -- one form or both -----------------------------------------------------------------------------------

    def _forms(self, n_nodes: int) -> tuple[bool, bool]:
        """Whether there is the network of the paper, and whether there is the motif form."""
        both = self.windows == "auto" and self.calibrate and n_nodes > self.motif_size
        return self.windows != "neighborhood", self.windows == "neighborhood" or both

    def _motif_form(self) -> MotifForm:
        """The estimator of the motif form, with the parameters of this one."""
        shared = ("deviation_from", "batch_size", "patience", "class_weight", "verbose", "callbacks")
        form = MotifForm(n_templates=self.n_motifs, kernel_size=self.motif_size)
        form.set_params(**{name: getattr(self, name) for name in shared})
        form.max_epochs = min(self.motif_epochs, self.max_epochs)
        form.template_learning_rate = self.template_learning_rate or form.template_learning_rate
        return form

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64], X_unlabeled: NDArray[Any] | None = None) -> None:
        super()._fit(X, codes, X_unlabeled)
        if self.form_weights_[1] > 0:
            network = self.motif_network_
            graphs = self._build_store(X, codes, network.templates.device, None)
            describe_motifs(network, graphs, self.batch_size)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        aligned, motifs = self._forms(n_nodes)
        second = self._motif_form()._build_module(n_nodes, n_classes) if motifs else None
        if not aligned and second is not None:
            return second
        module = with_parameters(IsoCapsNet, self, n_nodes, n_classes, reconstruct=self.reconstruction_weight > 0)
        module.motifs = second
        return module

    def _train(
        self,
        graphs: GraphStore,
        codes: NDArray[np.int64],
        training: NDArray[np.int64],
        validation: NDArray[np.int64],
        seed: int,
    ) -> tuple[nn.Module, History]:
        self.form_weights_ = (1.0, 0.0)
        aligned, motifs = self._forms(self.n_nodes_in_)
        if not motifs:
            return super()._train(graphs, codes, training, validation, seed)
        form = self._motif_form()
        form.classes_, form.n_nodes_in_ = self.classes_, self.n_nodes_in_
        if aligned:
            form.callbacks, form.verbose = None, 0
        labelled = graphs.subset(np.arange(len(codes)))
        second, history = form._train(labelled, codes, training, validation, seed)
        if not aligned:
            self.form_weights_ = (0.0, 1.0)
            return second, history
        first = copy(self)
        first.windows = "contiguous"
        module, history = first._train(graphs, codes, training, validation, seed)
        assert isinstance(module, IsoCapsNet)
        assert isinstance(second, MotifNetwork)
        module.motifs = second
        return module, history

    def _calibrate(
        self, scores: NDArray[np.float64], codes: NDArray[np.int64], class_weight: NDArray[np.float64]
    ) -> None:
        if scores.ndim == 2:
            super()._calibrate(scores, codes, class_weight)
            return
        first, second = fit_weights(scores[:, 0], scores[:, 1], codes, class_weight)
        self.temperature_ = first + second
        self.form_weights_ = (first / self.temperature_, second / self.temperature_)

    def _module_scores(self, module: nn.Module, graphs: GraphStore) -> NDArray[np.float64]:
        """Class scores ``(n, n_classes)``, or ``(n, 2, n_classes)`` of both forms."""
        if not all(self._forms(self.n_nodes_in_)):
            return super()._module_scores(module, graphs)
        parts = [
            torch.stack([safe_norm(output.capsules), output.motifs.logits], dim=1).cpu().double().numpy()
            for output, _ in outputs(module, graphs, self.batch_size)
        ]
        return np.concatenate(parts)

    def _class_scores(self, output: CapsuleOutput | MotifOutput) -> Tensor:
        if isinstance(output, MotifOutput):
            return output.logits
        lengths = super()._class_scores(output)
        if output.motifs is None:
            return lengths
        first, second = self.form_weights_
        return first * lengths + second * output.motifs.logits

    def _get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values, arrays = super()._get_state()
        return values | {"form_weights": list(self.form_weights_)}, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        first, second = values.get("form_weights", (1.0, 0.0))
        for weight in (first, second):
            check_number("form_weights", weight, low=0, high=1)
        self.form_weights_ = (first, second)
        super()._set_state(values, arrays)
