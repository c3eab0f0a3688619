"""One method, one paper, one file, one scikit-learn estimator."""

from isocapsnet.models._base import GraphClassifier
from isocapsnet.models.freq import FreqClassifier
from isocapsnet.models.isocapsnet import IsoCapsNetClassifier
from isocapsnet.models.wl import WLClassifier
from isocapsnet.models.yardsticks import ConstantClassifier, LinearClassifier

#: Every method by its name on the command line.
MODELS: dict[str, type[GraphClassifier]] = {
    "isocapsnet": IsoCapsNetClassifier,
    "wl": WLClassifier,
    "freq": FreqClassifier,
    "constant": ConstantClassifier,
    "linear": LinearClassifier,
}

__all__ = ["MODELS", "GraphClassifier"]
