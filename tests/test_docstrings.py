"""Every public name has a docstring that says what its parameters are, in the form that numpydoc reads."""

import inspect
import re
from importlib import import_module

from numpydoc.validate import validate

import isocapsnet

MODULES = ["isocapsnet", *(f"isocapsnet.{name}" for name in ("models", "datasets", "evaluation", "explanation"))]
MODULES += ["isocapsnet.nn", "isocapsnet.functional"]

# Not every name needs an extended summary, a "See Also" or an example; returned values are named, as in scikit-learn.
OPTIONAL = {"ES01", "SA01", "EX01", "RT02"}
# Outside the front door a sentence with shapes is enough, and summaries may be equations or start with a plural.
BRIEF = OPTIONAL | {"PR01", "PR03", "PR04", "PR07", "PR08", "RT01", "RT03", "SS02", "SS05", "YD01"}
# Parameters of an estimator are inherited dataclass fields, so their order is not that of the docstring.
ESTIMATORS = OPTIONAL | {"PR03"}


def public_names():
    """Every public function and class, and the methods and properties that they define, by their first public name."""
    seen = set()
    for module in map(import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if not callable(value) or id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{module.__name__}.{name}"
            for member, attribute in vars(value).items() if inspect.isclass(value) else ():
                is_documented = inspect.isfunction(attribute) or isinstance(attribute, property | classmethod)
                if (
                    is_documented
                    and not member.startswith("_")
                    and member not in vars(value).get("__annotations__", ())
                ):
                    yield f"{module.__name__}.{name}.{member}"


NAMES = sorted(public_names())


def find(name):
    module, value = "isocapsnet", isocapsnet
    for part in name.split(".")[1:]:
        module += f".{part}"
        value = import_module(module) if module in MODULES else getattr(value, part)
    return value


def find_parent(name):
    return find(name.rpartition(".")[0])


def faults(name):
    is_front_door = name.startswith("isocapsnet.") and name.count(".") == 1
    allowed = BRIEF if not is_front_door else ESTIMATORS if inspect.isclass(find(name)) else OPTIONAL
    return [error for error in validate(name)["errors"] if error[0] not in allowed]


def undocumented(name):
    """Parameters of a function that its docstring does not mention."""
    value = find(name)
    text = inspect.getdoc(value) or ""
    return [each for each in inspect.signature(value).parameters if not re.search(rf"\b{each}\b", text)]


def test_there_are_names():
    assert len(NAMES) > 200
    assert {"isocapsnet.benchmark", "isocapsnet.BrainGraphs.save", "isocapsnet.models.GINClassifier"} <= set(NAMES)


def test_every_docstring_passes_numpydoc_validation():
    assert {name: found for name in NAMES if (found := faults(name))} == {}


def test_every_function_mentions_its_parameters():
    functions = [name for name in NAMES if inspect.isfunction(find(name)) and not inspect.isclass(find_parent(name))]
    assert len(functions) > 60
    assert {name: found for name in functions if (found := undocumented(name))} == {}
