"""The parameters of the networks: dataclass fields, documented once and in full."""

import pickle
import re
from inspect import cleandoc

import pytest
from sklearn.base import clone

from isocapsnet import InputError
from isocapsnet.models import MODELS
from isocapsnet.models._network import NetworkClassifier
from isocapsnet.models._parameters import Count, Sizes, estimator, with_parameters

NETWORKS = {name: model for name, model in MODELS.items() if issubclass(model, NetworkClassifier)}


def documented(docstring, section):
    """The names in a section of a numpydoc docstring, each with the text below it."""
    text = re.search(rf"^{section}\n-+\n(.*?)(?=\n\n|\Z)", cleandoc(docstring), re.DOTALL | re.MULTILINE)[1]
    entries = re.findall(r"^(\w[\w, ]*?)(?: : .*)?\n((?:    .*\n?)*)", text + "\n", re.MULTILINE)
    return {name: below.strip() for names, below in entries for name in names.split(", ")}


@pytest.mark.parametrize("method", MODELS)
def test_every_parameter_is_documented_and_nothing_else(method):
    parameters = set(MODELS[method]().get_params())
    if parameters:
        assert set(documented(MODELS[method].__doc__, "Parameters")) == parameters


@pytest.mark.parametrize("method", NETWORKS)
def test_shared_text_is_filled_in(method):
    docstring = NETWORKS[method].__doc__
    assert not re.search(r"^ *\{\w+\}$", docstring, re.MULTILINE)
    assert max(map(len, docstring.splitlines())) <= 120
    assert "on_epoch_end" in documented(docstring, "Parameters")["callbacks"]
    attributes = documented(docstring, "Attributes")
    assert {"classes_", "module_", "history_", "scaler_", "temperature_"} <= set(attributes)
    assert "valid_loss" in attributes["history_"]


@estimator
class Small(MODELS["cnn"]):
    """A network with one more parameter.

    Parameters
    ----------
    {running}
    """

    batch_size: int = 3
    width: int = 7


def test_a_subclass_inherits_parameters_and_may_change_their_defaults():
    assert Small().get_params() == MODELS["cnn"]().get_params() | {"batch_size": 3, "width": 7}
    assert Small(width=9, channels=(1,)).get_params()["width"] == 9
    with pytest.raises(TypeError):
        Small(no_such_parameter=1)
    with pytest.raises(TypeError):
        Small(3)
    assert list(documented(Small.__doc__, "Parameters")) == ["device", "random_state", "verbose", "callbacks"]


def test_estimators_compare_print_clone_and_pickle_as_scikit_learn_does():
    model = Small(width=9)
    assert model != Small(width=9) and hash(model) is not None
    assert repr(model) == "Small(width=9)"
    assert clone(model).width == pickle.loads(pickle.dumps(model)).width == 9


@estimator
class Checked(MODELS["constant"]):
    """A method whose parameters are checked by their annotations."""

    depth: Count = 3
    width: Count | None = 5
    sizes: Sizes = (2, 1)
    anything: object = None


def test_annotations_check_the_parameters():
    Checked()._check_parameters(1)
    Checked(width=None, sizes=[4], anything=-1)._check_parameters(1)
    for name, value in (("depth", 0), ("depth", 1.5), ("depth", None), ("width", 0), ("sizes", ()), ("sizes", None)):
        with pytest.raises(InputError, match=name):
            Checked(**{name: value})._check_parameters(1)


def test_keyword_only_arguments_are_parameters_of_the_estimator():
    def build(first, *, depth, width, scale=1):
        return first, depth, width, scale

    assert with_parameters(build, Checked(depth=7), "graph", scale=2) == ("graph", 7, 5, 2)
    with pytest.raises(AttributeError, match="scale"):  # a default is not used without notice
        with_parameters(build, Checked(), "graph")
