"""Base class of the networks that also learn from unlabelled graphs."""

from typing import Any, Self

from numpy.typing import ArrayLike, NDArray

from isocapsnet._validation import check_graphs
from isocapsnet.models._base import warn_user
from isocapsnet.models._network import NetworkClassifier


class SemiSupervisedNetwork(NetworkClassifier):
    """A network that also learns without labels, for example to reconstruct the graphs."""

    def fit(self, X: ArrayLike, y: ArrayLike, X_unlabeled: ArrayLike | None = None) -> Self:
        """Fit to labelled graphs, and to unlabelled ones where no label is needed.

        Parameters
        ----------
        X : array-like (n_graphs, n_nodes, n_nodes)
        y : array-like (n_graphs,)
        X_unlabeled : array-like (n_unlabeled, n_nodes, n_nodes), optional
            Ignored with a warning if the parameters leave nothing to learn without labels.
        """
        graphs, classes, codes = self._check_training(X, y)
        unlabeled: NDArray[Any] | None = None
        if X_unlabeled is not None:
            unlabeled = check_graphs(X_unlabeled, n_nodes=graphs.shape[1], name="X_unlabeled")
            if not self._learns_unlabeled():
                warn_user(
                    f"The {len(unlabeled)} unlabelled graphs are ignored: without a decoder there is nothing to learn "
                    "from them.",
                )
                unlabeled = None
        return self._fit_checked(graphs, classes, codes, unlabeled)

    def _learns_unlabeled(self) -> bool:
        """Whether the network learns from graphs without labels."""
        return True
