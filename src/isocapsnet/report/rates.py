"""What a method does at its own decisions, and whether its probabilities can be taken at their word."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from isocapsnet._format import number
from isocapsnet.evaluation.statistics import LEVEL, Interval, weighted_mean, wilson_interval
from isocapsnet.report.content import Content, ReportedMethod

# A ROC AUC from here on is high; a Brier score above this share of the one of the class frequencies is poor.
_HIGH_AREA, _POOR_BRIER = 0.75, 0.75
# A smaller gap between confidence and accuracy is not worth a remark.
_NOTABLE_GAP = 0.05


def decision_rates(content: Content, method: ReportedMethod) -> Mapping[str, Interval]:
    """Sensitivity, specificity and predictive values for the positive class, each with Wilson's 95 % interval.

    The decision is the most probable class. A subject is counted once, however many repeats predicted it. Beyond two
    classes, the sensitivity for each class.
    """
    truth, answers = method.labels, method.probabilities.argmax(axis=1)

    def rate(among: np.ndarray, hits: np.ndarray) -> Interval:
        share = 1 / max(method.n_repeats, 1)
        total, right = round(share * among.sum()), share * (among & hits).sum()
        if not total:
            return Interval(*[float("nan")] * 3)
        bounds = wilson_interval(min(round(right), total), total)
        return Interval(float((among & hits).sum() / among.sum()), bounds.low, bounds.high)

    if len(content.classes) != 2:
        return {
            f"sensitivity for {name}": rate(truth == code, answers == code) for code, name in enumerate(content.classes)
        }
    is_positive, says_positive = truth == content.positive, answers == content.positive
    return {
        "sensitivity": rate(is_positive, says_positive),
        "specificity": rate(~is_positive, ~says_positive),
        "positive predictive value": rate(says_positive, is_positive),
        "negative predictive value": rate(~says_positive, ~is_positive),
    }


def average_precision(content: Content, method: ReportedMethod) -> float:
    """The mean over test folds of the average precision for the positive class."""
    from sklearn.metrics import average_precision_score

    scores = [
        average_precision_score(fit.labels == content.positive, fit.probabilities[:, content.positive])
        if (fit.labels == content.positive).any()
        else float("nan")
        for fit in method.fits
    ]
    return weighted_mean(scores, method.weights)


class Calibration(NamedTuple):
    """What is said about the probabilities of a method, and whether it is a warning."""

    text: str
    is_poor: bool


def describe_calibration(method: ReportedMethod) -> Calibration | None:
    """Whether the probabilities agree with the outcomes, in words; None without finished jobs."""
    if not method.fits:
        return None
    truth, predicted = method.labels, method.probabilities
    brier, area = method.row.metrics["brier"].mean, method.row.metrics["roc_auc"].mean
    shares = np.bincount(truth, minlength=predicted.shape[1]) / len(truth)
    uninformed = float((shares * (1 - shares)).sum()) / (2 if len(shares) == 2 else 1)
    n_subjects = max(1, round(len(truth) / max(method.n_repeats, 1)))
    accuracy = float(np.mean(predicted.argmax(axis=1) == truth))
    confidence = float(predicted.max(axis=1).mean())
    _, low, high = wilson_interval(round(accuracy * n_subjects), n_subjects)
    sentence = (
        f"The Brier score is {number(brier)}; always predicting the class frequencies would give {number(uninformed)}."
    )
    is_poor = area >= _HIGH_AREA and method.row.p_chance <= LEVEL and brier > _POOR_BRIER * uninformed
    is_off = abs(confidence - accuracy) > _NOTABLE_GAP and not low <= confidence <= high
    if is_poor:
        sentence += (
            f" The method ranks subjects well (ROC AUC {number(area)}), but its probabilities are poor. Use the "
            "ranking, or calibrate the probabilities before they are used as risks."
        )
    if is_off:
        direction = "too cautious" if confidence < accuracy else "too sure"
        sentence += (
            f" Its probabilities are {direction}: the mean probability of the predicted class is {confidence:.0%}, and "
            f"{accuracy:.0%} of the predictions are correct."
        )
    elif brier < uninformed:
        sentence += " The mean confidence agrees with the share of correct predictions."
    return Calibration(sentence, is_poor or is_off)
