"""Brain-graph classification that can be trusted.

Public names are resolved on first use (PEP 562), so that ``import isocapsnet`` stays cheap and the command line
can print its help without loading torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "MODELS",
    "BrainGraphs",
    "ConstantClassifier",
    "InputError",
    "IsoCapsNetClassifier",
    "LinearClassifier",
    "ReleasedIsoCapsNetClassifier",
    "load_graphs",
    "load_model",
    "make_planted_graphs",
    "save_model",
]

if TYPE_CHECKING:
    from isocapsnet._validation import InputError
    from isocapsnet.datasets.graphs import BrainGraphs
    from isocapsnet.datasets.readers import load_graphs
    from isocapsnet.datasets.synthetic import make_planted_graphs
    from isocapsnet.models import MODELS
    from isocapsnet.models._persistence import load_model, save_model
    from isocapsnet.models.baselines import ConstantClassifier, LinearClassifier
    from isocapsnet.models.isocapsnet import IsoCapsNetClassifier
    from isocapsnet.models.released import ReleasedIsoCapsNetClassifier

_HOMES = {
    "MODELS": "isocapsnet.models",
    "BrainGraphs": "isocapsnet.datasets.graphs",
    "ConstantClassifier": "isocapsnet.models.baselines",
    "InputError": "isocapsnet._validation",
    "IsoCapsNetClassifier": "isocapsnet.models.isocapsnet",
    "LinearClassifier": "isocapsnet.models.baselines",
    "ReleasedIsoCapsNetClassifier": "isocapsnet.models.released",
    "load_graphs": "isocapsnet.datasets.readers",
    "load_model": "isocapsnet.models._persistence",
    "make_planted_graphs": "isocapsnet.datasets.synthetic",
    "save_model": "isocapsnet.models._persistence",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
