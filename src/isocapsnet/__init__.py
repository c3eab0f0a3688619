"""Classification of brain graphs, evaluated without leakage.

Public names are imported on first use (PEP 562), so that ``import isocapsnet`` is fast and the command line prints its
help without torch.
"""

# ruff: noqa: F401
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from isocapsnet._benchmarking import benchmark, sweep
    from isocapsnet._doctor import doctor
    from isocapsnet._explaining import explain
    from isocapsnet._fitting import check_data, fit, predict, transform
    from isocapsnet._model_cards import model_card
    from isocapsnet._pipelines import PreparedModel, load_model, save_model
    from isocapsnet._results import Results
    from isocapsnet._results_folders import compare, open_results
    from isocapsnet._validation import InputError
    from isocapsnet.datasets.graphs import BrainGraphs
    from isocapsnet.datasets.readers import load_graphs
    from isocapsnet.datasets.synthetic import make_planted_graphs
    from isocapsnet.models import MODELS
    from isocapsnet.models.baselines import ConstantClassifier, LinearClassifier
    from isocapsnet.models.isocapsnet import IsoCapsNetClassifier
    from isocapsnet.models.released import ReleasedIsoCapsNetClassifier

_MODULES = {
    "MODELS": "models",
    "BrainGraphs": "datasets.graphs",
    "ConstantClassifier": "models.baselines",
    "InputError": "_validation",
    "IsoCapsNetClassifier": "models.isocapsnet",
    "LinearClassifier": "models.baselines",
    "ReleasedIsoCapsNetClassifier": "models.released",
    "PreparedModel": "_pipelines",
    "Results": "_results",
    "benchmark": "_benchmarking",
    "check_data": "_fitting",
    "compare": "_results_folders",
    "doctor": "_doctor",
    "explain": "_explaining",
    "fit": "_fitting",
    "load_graphs": "datasets.readers",
    "load_model": "_pipelines",
    "make_planted_graphs": "datasets.synthetic",
    "model_card": "_model_cards",
    "open_results": "_results_folders",
    "predict": "_fitting",
    "save_model": "_pipelines",
    "sweep": "_benchmarking",
    "transform": "_fitting",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
