"""Every check of ours on every method of MODELS, and a count of how many ran."""

import pkgutil
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from isocapsnet import models, save_model
from isocapsnet.models import MODELS, GraphClassifier
from isocapsnet.models._network import NetworkClassifier
from tests.models.estimator_checks import CHECKS, fitted, parameters_without_effect

# Settings that make a fit take a blink; what a method's own tests prove is not repeated here.
FAST = {
    "isocapsnet": {"max_epochs": 2, "n_templates": 2},
    "isocapsnet-released": {"max_epochs": 2, "decoder_sizes": (16,)},
    "isonn": {"max_epochs": 2},
    "fastisonn": {"max_epochs": 2},
    "capsnet": {"max_epochs": 2, "decoder_sizes": (16,)},
    "cnn": {"max_epochs": 2},
    "sdbn": {"max_epochs": 2},
    "dgcnn": {"max_epochs": 2, "density": 0.2},
    "autoencoder": {"max_epochs": 2, "pretraining_epochs": 2},
    "gcn": {"max_epochs": 2, "density": 0.2},
    "gin": {"max_epochs": 2, "density": 0.2},
    "diffpool": {"max_epochs": 2, "density": 0.2},
    "freq": {"density": 0.4},
    "forest": {"n_trees": 20},
    "shortest-path": {"density": 0.2},
    "brainnetcnn": {"max_epochs": 2},
    "bnt": {"max_epochs": 2, "n_clusters": 4, "feedforward_size": 16, "learning_rate": 3e-3},
}

# Where a method is right to fail a check, the test insists that it does.
MUST_FAIL = {
    ("constant", "check_answer_depends_on_the_graph"): "a constant predictor looks at no graph",
    ("isocapsnet, contiguous", "check_every_parameter_makes_a_difference"): "it has parameters of the other form",
    ("isocapsnet, neighborhood", "check_every_parameter_makes_a_difference"): "it has parameters of the other form",
    ("isocapsnet, diagonal", "check_every_parameter_makes_a_difference"): "it has parameters of the other form",
}


def settings(name):
    seeded = {"random_state": 0} if "random_state" in MODELS[name]().get_params() else {}
    return seeded | FAST.get(name, {})


# One object per method, so that checks share what they fitted.
MAKE = {name: partial(model, **settings(name)) for name, model in MODELS.items()}
MAKE["svm, rbf"] = partial(MAKE["svm"], kernel="rbf")
MAKE["riemann, mdm"] = partial(MAKE["riemann"], approach="mdm")
MAKE["isocapsnet, contiguous"] = partial(MAKE["isocapsnet"], windows="contiguous")
for windows in ("neighborhood", "diagonal"):
    MAKE[f"isocapsnet, {windows}"] = partial(MAKE["isocapsnet"], windows=windows, n_motifs=6, max_epochs=4)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("method", MAKE)
def test_estimator(method, check):
    if (method, check) in MUST_FAIL:
        with pytest.raises(AssertionError):
            CHECKS[check](MAKE[method])
    else:
        CHECKS[check](MAKE[method])


PREDICT_FIRST = """
import sys, warnings
from pathlib import Path
from numpy.testing import assert_array_equal
from sklearn.base import clone
from isocapsnet import load_model
from tests.models.estimator_checks import make_data
X, y = make_data()
models = [load_model(path) for path in sorted(Path(sys.argv[1]).iterdir())]
answers = [model.predict_proba(X) for model in models]
warnings.filterwarnings("error", "The fused kernels")  # they say so if they cannot be used
for model, answer in zip(models, answers):
    assert_array_equal(clone(model).fit(X, y).predict_proba(X), answer, str(model))
print(len(models))
"""


def test_a_process_that_predicts_before_it_trains_trains_alike(tmp_path):
    networks = {name: make for name, make in MAKE.items() if issubclass(make.func, NetworkClassifier)}
    for name, make in networks.items():
        save_model(fitted(make), tmp_path / f"{name}.safetensors")
    done = subprocess.run(
        [sys.executable, "-c", PREDICT_FIRST, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(networks) > 10


def test_every_parameter_of_isocapsnet_makes_a_difference_in_one_of_its_forms():
    forms = (parameters_without_effect(MAKE[f"isocapsnet, {windows}"]) for windows in ("contiguous", "neighborhood"))
    assert not set.intersection(*forms)


def test_every_method_there_is_has_a_name():
    public = [name for _, name, _ in pkgutil.iter_modules(models.__path__) if not name.startswith("_")]
    modules = [import_module(f"isocapsnet.models.{name}") for name in public]
    classes = {
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, GraphClassifier) and thing.__module__ == module.__name__
    }
    assert classes == set(MODELS.values())
    assert len(MODELS) == len(classes)


def test_every_method_but_the_yardsticks_has_a_representation():
    without = {name for name, model in MODELS.items() if not hasattr(model, "transform")}
    assert without == {"constant", "linear", "svm", "forest"}


def test_every_check_runs_on_every_method(request):
    ran = {
        (item.callspec.params["method"], item.callspec.params["check"])
        for item in request.node.parent.collect()
        if getattr(item, "originalname", None) == "test_estimator"
    }
    assert len(CHECKS) >= 30
    assert len(ran) == len(MAKE) * len(CHECKS)
    assert set(MUST_FAIL) <= ran
