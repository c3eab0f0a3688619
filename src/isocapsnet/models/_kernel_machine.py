"""Support vector machines on a kernel, with calibrated probabilities: ``svm`` and the graph kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.svm import SVC

from isocapsnet.models._base import GraphClassifier
from isocapsnet.models._calibration import fit_slope_and_offset

Folds = list[tuple[NDArray[np.int64], NDArray[np.int64]]]


class KernelClassifier(GraphClassifier):
    """A support vector machine on a kernel, one class against the rest.

    A method has ``_similarity(X)``, the kernel of graphs with the training graphs, and the parameter ``C``.
    """

    C: float
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    slope_: float
    offset_: NDArray[np.float64]

    #: Whether the method calibrates probabilities, if graphs can be held out.
    _calibrates: bool = True
    is_calibrated_: bool | None

    def _similarity(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """The kernel of each graph with each training graph ``(n_graphs, n_training_graphs)``."""
        raise NotImplementedError

    def _fit_head(
        self, similarity: NDArray[np.float64], codes: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights ``(n_classes, n_graphs)`` and intercepts ``(n_classes,)`` of the class scores, from the kernel of the
        training graphs."""
        n_classes = len(weights)
        coef, intercept = np.zeros((n_classes, len(codes))), np.zeros(n_classes)
        # With two classes one machine is enough: the scores of the other class are its negative.
        for code in range(n_classes) if n_classes > 2 else [1]:
            machine = SVC(kernel="precomputed", C=self.C, random_state=0)
            machine.fit(similarity, codes == code, sample_weight=weights[codes])
            coef[code, machine.support_], intercept[code] = machine.dual_coef_[0], machine.intercept_[0]
        if n_classes == 2:
            coef[0], intercept[0] = -coef[1], -intercept[1]
        return coef, intercept

    def _cross_validate(
        self, similarity: NDArray[np.float64], codes: NDArray[np.int64], weights: NDArray[np.float64], folds: Folds
    ) -> tuple[float, NDArray[np.float64], float]:
        """Slope and offset of the probabilities, and their log-loss over the held-out graphs."""
        slope, offset = 1.0, np.zeros(len(weights))
        if not folds:
            return slope, offset, 0.0
        scores = np.zeros((len(codes), len(weights)))
        for train, fold in folds:
            coef, intercept = self._fit_head(similarity[np.ix_(train, train)], codes[train], weights)
            scores[fold] = similarity[np.ix_(fold, train)] @ coef.T + intercept
        held_out = np.concatenate([fold for _, fold in folds])
        scores, codes = scores[held_out], codes[held_out]
        self.is_calibrated_ = self._calibrates
        if self._calibrates:
            slope, offset = fit_slope_and_offset(scores, codes, weights)
        proba = self._probabilities(scores, slope, offset)[np.arange(len(codes)), codes]
        return slope, offset, float(-weights[codes] @ np.log(np.maximum(proba, 1e-12)))

    def _probabilities(
        self, scores: NDArray[np.float64], slope: float, offset: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return np.asarray(softmax(slope * scores + offset, axis=1))

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        scores = self._similarity(X) @ self.coef_.T + self.intercept_
        return self._probabilities(scores, self.slope_, self.offset_)
