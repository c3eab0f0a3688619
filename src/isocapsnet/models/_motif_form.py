"""The motif form of Iso-CapsNet: the estimator that trains it."""

from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from isocapsnet.models._batches import GraphStore
from isocapsnet.models._network import NetworkClassifier
from isocapsnet.models._optimizer import Adam
from isocapsnet.models._parameters import Count, NotNegative, Positive, estimator, one_of, with_parameters
from isocapsnet.nn.motifs import DEVIATIONS, MOTIF_WINDOWS, MotifNetwork, MotifOutput

# Templates start from windows of at most this many graphs.
_STARTING_GRAPHS = 256


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
    windows : {"neighborhood", "diagonal"}
    n_templates, kernel_size : int
    template_learning_rate : float
    softness : float
        τ of the soft minimum.
    deviation_from : {"mean_graph", "mean_edge"}
    {training_and_fitted}
    """

    _records_steps: ClassVar[bool] = True
    _smaller_model_hint = "use fewer or smaller motifs"

    windows: Annotated[str, one_of(*MOTIF_WINDOWS)] = "neighborhood"
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
