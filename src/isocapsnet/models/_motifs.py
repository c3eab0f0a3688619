"""The motif form of Iso-CapsNet, for patterns without a fixed place, and its use beside the network of the paper."""

from copy import copy
from dataclasses import field
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError, check_number
from isocapsnet.functional import safe_norm
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._calibration import fit_weights
from isocapsnet.models._network import NetworkClassifier
from isocapsnet.models._parameters import Count, NotNegative, Positive, estimator, in_range, one_of, with_parameters
from isocapsnet.models._templates import Matches, TemplateClassifier
from isocapsnet.models._training import Adam, History, outputs
from isocapsnet.nn import CapsuleOutput, IsoCapsNet
from isocapsnet.nn.motifs import DEVIATIONS, MotifNetwork, MotifOutput

WINDOWS = ("auto", "contiguous", "neighborhood")
# All permutations of a motif are tried at once.
MAX_MOTIF_SIZE = 6
# Templates start from windows of at most this many graphs.
_STARTING_GRAPHS = 256
# Carriers of motifs are described from at most this many graphs.
_DESCRIBED_GRAPHS = 1024


class LogitsLoss(nn.CrossEntropyLoss):
    """The cross-entropy of the logits of a :class:`~isocapsnet.nn.MotifOutput`."""

    def forward(self, output: MotifOutput, codes: Tensor) -> Tensor:  # type: ignore[override]
        """The mean loss of a batch."""
        return super().forward(output.logits, codes)


@estimator
class MotifForm(NetworkClassifier):
    """Trains a :class:`~isocapsnet.nn.MotifNetwork`. :class:`~isocapsnet.IsoCapsNetClassifier` sets its parameters.

    Parameters
    ----------
    n_templates, kernel_size : int
    template_learning_rate : float
    softness : float
        τ of the soft minimum.
    deviation_from : {"mean_graph", "mean_edge"}
    {training_and_fitted}
    """

    n_templates: Count = 32
    kernel_size: Count = 4
    template_learning_rate: Positive = 0.02
    softness: Positive = 0.6
    deviation_from: Annotated[str, one_of(*DEVIATIONS)] = "mean_graph"
    learning_rate: Positive = 0.01
    weight_decay: NotNegative = 0.01
    batch_size: Count = 64
    max_epochs: Count = 50

    def _build_module(self, n_nodes: int, n_classes: int) -> MotifNetwork:
        return with_parameters(MotifNetwork, self, n_nodes, n_classes)

    def _build_criterion(self, weights: Tensor) -> nn.Module:
        return LogitsLoss(weights)

    def _class_scores(self, output: MotifOutput) -> Tensor:
        return output.logits

    def _build_optimizer(self, module: nn.Module) -> Adam:
        assert isinstance(module, MotifNetwork)
        templates = Adam([module.templates], self.template_learning_rate, weight_decay=0.0)
        return Adam(module.head.parameters(), self.learning_rate, self.weight_decay, others=templates)

    def _prepare(self, module: nn.Module, graphs: GraphStore) -> None:
        assert isinstance(module, MotifNetwork)
        total: Any = sum(batch.sum(dim=0, dtype=torch.float64) for batch, _ in graphs.batches(self.batch_size))
        some = torch.randperm(len(graphs))[:_STARTING_GRAPHS].sort().values
        module.start_from((total / len(graphs)).float(), graphs.batch(some.numpy())[0])


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


@estimator
class TwoForms(TemplateClassifier):
    """Combines a capsule network, which a method builds in ``_build_aligned``, with the motif form."""

    windows: Annotated[str, one_of(*WINDOWS)] = "auto"
    n_motifs: Count = 32
    motif_size: Annotated[int, in_range(2, MAX_MOTIF_SIZE, integer=True)] = 4
    deviation_from: Annotated[str, one_of(*DEVIATIONS)] = "mean_graph"
    template_learning_rate: Positive | None = None

    form_weights_: tuple[float, float] = field(init=False)

    def _build_aligned(self, n_nodes: int, n_classes: int) -> IsoCapsNet:
        raise NotImplementedError

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        if self.windows == "neighborhood" and self.motif_size > n_nodes:
            raise InputError(
                f"motif_size={self.motif_size} is larger than the graphs, which have {n_nodes} nodes; choose a smaller "
                "motif_size."
            )

    @property
    def templates_(self) -> NDArray[np.float32]:
        """Learned templates ``(n_templates, k, k)``, in scaled units."""
        return self.motifs_ if self.windows == "neighborhood" else super().templates_

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

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]
        aligned, motifs = self._forms(self.n_nodes_in_)
        return aligned * super()._n_features_out + motifs * self.n_motifs

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

    def _learns_unlabeled(self) -> bool:
        return self.windows != "neighborhood" and super()._learns_unlabeled()

    def _forms(self, n_nodes: int) -> tuple[bool, bool]:
        """Whether there is the network of the paper, and whether there is the motif form."""
        both = self.windows == "auto" and self.calibrate and n_nodes > self.motif_size
        return self.windows != "neighborhood", self.windows == "neighborhood" or both

    def _motif_form(self) -> MotifForm:
        """The estimator of the motif form, with the parameters of this one."""
        shared = ("deviation_from", "batch_size", "patience", "class_weight", "verbose", "callbacks")
        form = MotifForm(n_templates=self.n_motifs, kernel_size=self.motif_size)
        form.set_params(**{name: getattr(self, name) for name in shared})
        form.max_epochs = max(1, self.max_epochs // 2)
        form.template_learning_rate = self.template_learning_rate or form.template_learning_rate
        return form

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64], X_unlabeled: NDArray[Any] | None = None) -> None:
        super()._fit(X, codes, X_unlabeled)
        if self.form_weights_[1] > 0:
            self._describe_carriers(X, codes)

    @torch.no_grad()
    def _describe_carriers(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        """Let the motif form describe which training graphs carry its templates; predictions do not use it."""
        network = self.motif_network_
        some = np.linspace(0, len(X) - 1, min(len(X), _DESCRIBED_GRAPHS)).astype(np.int64)
        graphs = GraphStore(X[some], codes[some], self.scaler_, network.templates.device)
        taken = ((network.take(batch)[0], labels) for batch, labels in graphs.batches(self.batch_size))
        windows, labels = (torch.cat(parts) for parts in zip(*taken, strict=True))
        network.describe(windows, labels)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        aligned, motifs = self._forms(n_nodes)
        second = self._motif_form()._build_module(n_nodes, n_classes) if motifs else None
        if not aligned and second is not None:
            return second
        module = self._build_aligned(n_nodes, n_classes)
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
        labelled = graphs.plain().subset(np.arange(len(codes)))
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
        if output.motifs is None or self.form_weights_[1] == 0:
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
        expected = {"contiguous": (1, 0), "neighborhood": (0, 1)}.get(self.windows, (first, second))
        if (first, second) != expected or abs(first + second - 1) > 1e-9:
            raise InputError(f"its form_weights {first:g} and {second:g} do not fit windows={self.windows}")
        self.form_weights_ = (first, second)
        super()._set_state(values, arrays)
