"""A stacked denoising autoencoder on edges, then an MLP on its code.

P. Vincent, H. Larochelle, I. Lajoie, Y. Bengio and P.-A. Manzagol, "Stacked denoising autoencoders", JMLR 2010.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from isocapsnet._state import check_truth
from isocapsnet.models._base import are_symmetric, count_edges, edge_ends
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._device import PARAMETER, WHILE_TRAINING
from isocapsnet.models._encoder import EncoderClassifier, EncoderOutput
from isocapsnet.models._parameters import Share, Sizes, estimator, in_range
from isocapsnet.models._semisupervised import SemiSupervisedNetwork
from isocapsnet.models._training import train
from isocapsnet.nn.capsule import WideLinear, mlp


class EdgeEncoder(nn.Module):
    """Standardised edges through sigmoid layers to a code, and an MLP from the code to the classes.

    ``directed`` edges are both triangles of the adjacency matrix, instead of the upper one. Other parameters are those
    of :class:`AutoencoderClassifier`.
    """

    edges: Tensor
    mean: Tensor
    deviation: Tensor

    def __init__(
        self, n_nodes: int, n_classes: int, hidden_sizes: Sequence[int], head_sizes: Sequence[int], directed: bool
    ) -> None:
        super().__init__()
        n_edges = count_edges(n_nodes, directed=directed)
        self.register_buffer("mean", torch.zeros(n_edges))
        self.register_buffer("deviation", torch.ones(n_edges))
        self._n_nodes, self._directed = n_nodes, directed
        self.register_buffer("edges", torch.empty(n_edges, dtype=torch.int64), persistent=False)
        self._number_edges()
        # A module that is read from a file is on the meta device before.
        self.register_load_state_dict_post_hook(EdgeEncoder._number_edges)
        self.layers = nn.ModuleList(nn.Linear(n_in, n_out) for n_in, n_out in pairwise([n_edges, *hidden_sizes]))
        self.head = mlp([hidden_sizes[-1], *head_sizes, n_classes])

    def _number_edges(self, *_: Any) -> None:
        """Find the position of each edge in a flat adjacency matrix, unless the weights are on the meta device."""
        if not self.mean.is_meta:
            numbers = edge_ends(self._n_nodes, directed=self._directed) @ [self._n_nodes, 1]
            self.edges = torch.from_numpy(numbers).to(self.mean.device)

    def select(self, graphs: Tensor) -> Tensor:
        """The edges of each graph: ``(n_graphs, n_nodes, n_nodes)`` to ``(n_graphs, n_edges)``."""
        return graphs.flatten(1)[:, self.edges]

    def standardise(self, graphs: Tensor) -> Tensor:
        """The standardised edges of each graph: ``(n_graphs, n_nodes, n_nodes)`` to ``(n_graphs, n_edges)``."""
        return (self.select(graphs) - self.mean) / self.deviation

    def encode(self, graphs: Tensor) -> Tensor:
        """The code of each graph: the activities of the last layer."""
        activity = self.standardise(graphs)
        for layer in self.layers:
            activity = layer(activity).sigmoid()
        return activity

    def forward(self, graphs: Tensor) -> EncoderOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits and codes."""
        code = self.encode(graphs)
        return EncoderOutput(self.head(code), code)


class _Denoiser(nn.Module):
    """One layer of the encoder and a linear decoder, which restore the layer's input from a corrupted copy.

    Real-valued inputs and a squared error, Sections 2.3 and 3 of the paper.

    Parameters
    ----------
    layer : Linear
    inputs_of : callable
        What makes the clean inputs of the layer out of a batch.
    corruption : float
        Share of the inputs set to 0, which is the mean of standardised edges.
    """

    def __init__(self, layer: nn.Linear, inputs_of: Callable[[Tensor], Tensor], corruption: float) -> None:
        super().__init__()
        self.layer, self.decoder = layer, WideLinear(layer.out_features, layer.in_features, device=layer.weight.device)
        self.inputs_of, self.corruption = inputs_of, corruption

    def forward(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """The restored and the clean input of the layer, ``(n_graphs, n_features)`` each."""
        clean = self.inputs_of(batch)
        corrupted = clean * (torch.rand_like(clean) >= self.corruption)
        return self.decoder(self.layer(corrupted).sigmoid()), clean

    def activity(self, batch: Tensor) -> Tensor:
        """The activity of the layer without corruption, ``(n_graphs, n_out)``."""
        activity: Tensor = self.layer(self.inputs_of(batch)).sigmoid()
        return activity


@estimator
class AutoencoderClassifier(EncoderClassifier, SemiSupervisedNetwork):
    """Stacked denoising autoencoder and an MLP on its code (Vincent et al. 2010).

    Each layer of the encoder is first trained, without labels, to restore its input from a copy in which a share of the
    entries is masked; this also uses unlabelled graphs. The encoder and the MLP on its code are then trained together
    on the labels. Edges are the upper triangle, or both triangles when a training graph is not symmetric; the diagonal
    is not used. Each edge, with its sign and weight, is centred and scaled by its mean and deviation over the training
    graphs.

    Parameters
    ----------
    hidden_sizes : sequence of int
        Widths of the encoder's layers; the last is the size of the code, which ``transform`` returns.
    head_sizes : sequence of int
        Hidden widths of the MLP.
    corruption : float
        Share of the entries masked in pretraining.
    pretraining_epochs : int
        Per layer, with the same optimizer as the training after it; 0 leaves pretraining out.
    {training}

    Attributes
    ----------
    directed_ : bool
        Whether both triangles are used.
    {fitted}
    """

    _records_steps: ClassVar[bool] = True
    _search_space: ClassVar = {"corruption": [0.0, 0.25, 0.5], "learning_rate": [3e-4, 1e-3]}

    hidden_sizes: Sizes = (256, 64)
    head_sizes: Sizes = (32,)
    corruption: Share = 0.25
    pretraining_epochs: Annotated[int, in_range(0, integer=True)] = 30

    directed_: bool = field(init=False)

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64], X_unlabeled: NDArray[Any] | None = None) -> None:
        self.directed_ = not (are_symmetric(X) and (X_unlabeled is None or are_symmetric(X_unlabeled)))
        super()._fit(X, codes, X_unlabeled)

    def _without_effect(self) -> dict[str, str]:
        reasons = {} if self.pretraining_epochs else {"corruption": "pretraining_epochs=0, so nothing is restored"}
        return super()._without_effect() | reasons

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        return EdgeEncoder(n_nodes, n_classes, self.hidden_sizes, self.head_sizes, self.directed_)

    def _bytes_beside(self, module: nn.Module) -> int:
        # A layer is pretrained with a decoder of its own size, before the optimizer of the whole module has moments.
        sizes = {name: parameter.numel() for name, parameter in module.named_parameters()}
        widest, whole = max(size for name, size in sizes.items() if name.startswith("layers")), sum(sizes.values())
        pretraining = (PARAMETER + 2 * WHILE_TRAINING) * widest
        return max(0, pretraining - WHILE_TRAINING * whole) if self.pretraining_epochs else 0

    def _prepare(self, module: nn.Module, graphs: GraphStore) -> None:
        """Standardise the edges, then train layer by layer without labels (Section 4)."""
        assert isinstance(module, EdgeEncoder)
        scaler = StandardScaler()
        for batch, _ in graphs.batches(self.batch_size):
            scaler.partial_fit(module.select(batch).double().cpu().numpy())
        module.mean.copy_(torch.from_numpy(scaler.mean_))
        module.deviation.copy_(torch.from_numpy(scaler.scale_))
        inputs, inputs_of = graphs, cast(Callable[[Tensor], Tensor], module.standardise)
        for layer in module.layers:
            assert isinstance(layer, nn.Linear)
            denoiser = _Denoiser(layer, inputs_of, self.corruption)
            train(
                denoiser,
                lambda output, _: mse_loss(*output),
                self._build_optimizer(denoiser),
                inputs,
                batch_size=self.batch_size,
                max_epochs=self.pretraining_epochs,
            )
            if self.pretraining_epochs and layer is not module.layers[-1]:
                # The layers below the next one stay as they are, so its inputs are computed once.
                inputs, inputs_of = inputs.mapped(denoiser.activity, self.batch_size), nn.Identity()

    def _get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values, arrays = super()._get_state()
        return values | {"directed": self.directed_}, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.directed_ = check_truth("directed", values["directed"])
        super()._set_state(values, arrays)
