"""The methods: one paper, one file and one scikit-learn estimator each."""

from isocapsnet.models._base import GraphClassifier
from isocapsnet.models.autoencoder import AutoencoderClassifier
from isocapsnet.models.baselines import ConstantClassifier, LinearClassifier
from isocapsnet.models.bnt import BNTClassifier
from isocapsnet.models.brainnetcnn import BrainNetCNNClassifier
from isocapsnet.models.capsnet import CapsNetClassifier
from isocapsnet.models.cnn import CNNClassifier
from isocapsnet.models.confounds import ConfoundClassifier
from isocapsnet.models.cpm import CPMClassifier
from isocapsnet.models.dgcnn import DGCNNClassifier
from isocapsnet.models.diffpool import DiffPoolClassifier
from isocapsnet.models.fastisonn import FastIsoNNClassifier
from isocapsnet.models.forest import ForestClassifier
from isocapsnet.models.freq import FreqClassifier
from isocapsnet.models.gcn import GCNClassifier
from isocapsnet.models.gin import GINClassifier
from isocapsnet.models.isocapsnet import IsoCapsNetClassifier
from isocapsnet.models.isonn import IsoNNClassifier
from isocapsnet.models.released import ReleasedIsoCapsNetClassifier
from isocapsnet.models.riemann import RiemannClassifier
from isocapsnet.models.sdbn import SDBNClassifier
from isocapsnet.models.shortest_path import ShortestPathClassifier
from isocapsnet.models.svm import SVMClassifier
from isocapsnet.models.wl import WLClassifier

#: Every method by its name on the command line.
MODELS: dict[str, type[GraphClassifier]] = {
    "isocapsnet": IsoCapsNetClassifier,
    "isocapsnet-released": ReleasedIsoCapsNetClassifier,
    "isonn": IsoNNClassifier,
    "fastisonn": FastIsoNNClassifier,
    "capsnet": CapsNetClassifier,
    "cnn": CNNClassifier,
    "sdbn": SDBNClassifier,
    "dgcnn": DGCNNClassifier,
    "autoencoder": AutoencoderClassifier,
    "gcn": GCNClassifier,
    "gin": GINClassifier,
    "diffpool": DiffPoolClassifier,
    "wl": WLClassifier,
    "freq": FreqClassifier,
    "brainnetcnn": BrainNetCNNClassifier,
    "bnt": BNTClassifier,
    "constant": ConstantClassifier,
    "linear": LinearClassifier,
    "cpm": CPMClassifier,
    "svm": SVMClassifier,
    "forest": ForestClassifier,
    "riemann": RiemannClassifier,
    "shortest-path": ShortestPathClassifier,
}

#: Controls by name: methods of a benchmark that are given covariates instead of graphs.
CONTROLS: dict[str, type[ConfoundClassifier]] = {"confound-only": ConfoundClassifier}

__all__ = ["CONTROLS", "MODELS", "ConfoundClassifier", "GraphClassifier"]
__all__ += [model.__name__ for model in MODELS.values()]
