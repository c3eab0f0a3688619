"""Base class of the capsule networks with isomorphic templates."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.functional import IsomorphicMatch, SpectralMatch, assigned_columns, permutation_number
from isocapsnet.models._capsules import CapsuleClassifier
from isocapsnet.models._parameters import Count, estimator


class Matches(NamedTuple):
    """The match of each template with each window.

    Attributes
    ----------
    scores : array (n_graphs, n_templates, n, n)
        F of Eq. 1, in scaled units: 1 at a perfect match.
    permutations : array (n_graphs, n_templates, n, n), int64
        Row of ``isocapsnet.functional.permutation_table(kernel_size)``.
    """

    scores: NDArray[np.float32]
    permutations: NDArray[np.int64]


def match_graphs(estimator: Any, layer: Any, graphs: NDArray[Any]) -> tuple[IsomorphicMatch, Tensor | None]:
    """Match the templates of ``layer`` with checked graphs, batch by batch; the caller chooses the gradient mode.

    Where the layer relaxes permutations, the match has the permutation nearest to its matrix; the second value has the
    matrices ``(n_graphs, n_templates, n, n, k, k)``, if capsules are made of them.
    """
    distances, permutations, matrices = [], [], []
    for batch in estimator._batches(graphs):
        match = layer(batch)
        relaxed = isinstance(match, SpectralMatch)
        distances.append(match.distance)
        permutations.append(permutation_number(assigned_columns(match.matrix)) if relaxed else match.permutation)
        if relaxed and isinstance(estimator, CapsuleClassifier):
            matrices.append(match.matrix)
    return IsomorphicMatch(torch.cat(distances), torch.cat(permutations)), torch.cat(matrices) if matrices else None


@estimator
class TemplateClassifier(CapsuleClassifier):
    """A capsule network whose module has an isomorphic layer named ``isomorphic``."""

    kernel_size: Count = 4

    @property
    def templates_(self) -> NDArray[np.float32]:
        """Learned templates ``(n_templates, k, k)``, in scaled units."""
        templates = self.module_.get_parameter("isomorphic.templates")
        return templates.detach().cpu().numpy().copy()

    @one_thread()
    def match(self, X: ArrayLike) -> Matches:
        """The score and the winning permutation of every template in every window."""
        graphs = self._check_fitted(X)
        with torch.inference_mode():
            match, _ = match_graphs(self, self.module_.get_submodule("isomorphic"), graphs)
            return Matches((1 - match.distance).cpu().numpy(), match.permutation.cpu().numpy())

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        name = self._size_parameter()
        if getattr(self, name) > n_nodes:
            raise InputError(
                f"{name}={getattr(self, name)} is larger than the graphs, which have {n_nodes} nodes; choose a smaller "
                f"{name}."
            )

    def _size_parameter(self) -> str:
        """The parameter that is the number of nodes of the windows."""
        return "kernel_size"
