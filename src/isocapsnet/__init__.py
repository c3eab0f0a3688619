"""Brain-graph classification that can be trusted.

Public names are resolved on first use (PEP 562), so that ``import isocapsnet`` stays cheap and the command line
can print its help without loading torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "InputError": "isocapsnet._validation",
    "IsoCapsNetClassifier": "isocapsnet.models.isocapsnet",
    "ConstantClassifier": "isocapsnet.models.yardsticks",
    "LinearClassifier": "isocapsnet.models.yardsticks",
    "MODELS": "isocapsnet.models",
    "save_model": "isocapsnet.models._persistence",
    "load_model": "isocapsnet.models._persistence",
    "make_planted_graphs": "isocapsnet.datasets.synthetic",
}

__all__ = ["__version__", *sorted(_PUBLIC)]

if TYPE_CHECKING:
    from isocapsnet._validation import InputError
    from isocapsnet.datasets.synthetic import make_planted_graphs
    from isocapsnet.models import MODELS
    from isocapsnet.models._persistence import load_model, save_model
    from isocapsnet.models.isocapsnet import IsoCapsNetClassifier
    from isocapsnet.models.yardsticks import ConstantClassifier, LinearClassifier


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
