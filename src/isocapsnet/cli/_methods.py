"""What a user writes for methods and transforms, as the benchmark needs it."""

import ast
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from isocapsnet._validation import InputError
from isocapsnet.evaluation.jobs import Method
from isocapsnet.evaluation.preparation import Step


def split_names(text: str) -> list[tuple[str, dict[str, Any]]]:
    """``"a,b[x=1,y=two]"`` as ``[("a", {}), ("b", {"x": 1, "y": "two"})]``."""
    found = []
    for item in re.split(r",(?![^\[]*\])", text):
        match = re.fullmatch(r"\s*([\w-]+)\s*(?:\[(.*)\])?\s*", item)
        if match is None:
            raise InputError(f"{item!r} cannot be read; write NAME or NAME[parameter=value,...].")
        found.append((match[1], parse_settings(match[2] or "")))
    return found


def split_one_name(text: str) -> tuple[str, dict[str, Any]]:
    """The same for ``--method``, which names one."""
    found = split_names(text)
    if len(found) > 1:
        raise InputError(f"--method {text} names {len(found)} methods; name one.")
    return found[0]


def parse_settings(text: str) -> dict[str, Any]:
    """``"x=1,sizes=(64,32),mode=log"`` as a dict; what is no Python literal is text."""
    settings = {}
    for item in filter(None, split_values(text)):
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"{item!r} cannot be read; write parameter=value.")
        settings[name.strip()] = parse_value(value)
    return settings


def split_values(text: str) -> list[str]:
    """``"1,(64,32),log"`` as ``["1", "(64,32)", "log"]``."""
    return re.split(r",(?![^(]*\))", text)


def parse_value(text: str) -> Any:
    """A Python literal, or else the text itself."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.strip()


def find_model(name: str) -> Any:
    """The class of MODELS with this name."""
    from isocapsnet.models import MODELS

    if name not in MODELS:
        raise InputError(f"There is no method {name!r}; choose from {', '.join(MODELS)}.")
    return MODELS[name]


def list_methods(text: str, *, device: str | None = None, use_unlabeled: bool = False) -> tuple[Method, ...]:
    """Methods for the benchmark from ``all`` or ``NAME,NAME[parameter=value],...``."""
    if text == "all":
        from isocapsnet.models import MODELS

        text = ",".join(MODELS)
    return tuple(
        make_method(name, parameters, device=device, use_unlabeled=use_unlabeled)
        for name, parameters in split_names(text)
    )


def keep_suitable(methods: tuple[Method, ...], n_classes: int, *, named: bool) -> tuple[Method, ...]:
    """The methods that take this many classes; one that was named and does not is refused."""
    unsuitable = [
        method
        for method in methods
        if n_classes > 2 and not find_model(method.name)().__sklearn_tags__().classifier_tags.multi_class
    ]
    if unsuitable and named:
        raise InputError(
            f"{unsuitable[0].label} takes two classes, but the data have {n_classes}; leave it out of --methods."
        )
    return tuple(method for method in methods if method not in unsuitable)


def make_method(
    name: str, parameters: Mapping[str, Any], *, device: str | None = None, use_unlabeled: bool = False
) -> Method:
    """One method of MODELS; what the user sets is not searched over."""
    model = find_model(name)
    known = model().get_params()
    model.refuse_moved(parameters)
    check_parameters(name, parameters, known)
    takes_unlabeled = "X_unlabeled" in inspect.signature(model.fit).parameters
    return Method(
        name=name,
        factory=f"{model.__module__}:{model.__qualname__}",
        version=model.version,
        parameters=parameters,
        space={key: values for key, values in model.search_space().items() if key not in parameters},
        runtime={"device": device} if device is not None and "device" in known else {},
        use_unlabeled=use_unlabeled and takes_unlabeled,
    )


def check_parameters(name: str, parameters: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Refuse a parameter that the method does not have."""
    for parameter in parameters:
        if parameter not in known:
            raise InputError(f"{name} has no parameter {parameter!r}; it has {', '.join(known) or 'none'}.")


def list_steps(
    *,
    connectivity: str | None,
    transforms: str,
    harmonize: bool,
    confounds: Sequence[str],
    has_series: bool,
) -> tuple[Step, ...]:
    """The in-fold pipeline: connectivity, then site harmonisation, confounds and transforms.

    Harmonisation and confound regression come first unless ``transforms`` names them at another place.
    """
    from isocapsnet.datasets.connectivity import CONNECTIVITY, TRANSFORMS, TimeSeriesConnectivity

    asked = split_names(transforms) if transforms else []
    names = [name for name, _ in asked]
    for name, wanted in (("confounds", bool(confounds)), ("harmonize", harmonize)):
        if wanted and name not in names:
            asked.insert(0, (name, {}))
    if "confounds" in names and not confounds:
        raise InputError("Say which columns to regress out: --confounds age,sex.")
    steps = []
    if has_series:
        kind = connectivity or "correlation"
        if kind not in CONNECTIVITY:
            raise InputError(f"There is no connectivity {kind!r}; choose from {', '.join(CONNECTIVITY)}.")
        steps.append(_step("connectivity", TimeSeriesConnectivity, {"kind": kind}))
    elif connectivity == "tangent":
        asked.insert(0, ("tangent", {}))
    elif connectivity is not None:
        raise InputError(
            f"The data are graphs already, so --connectivity {connectivity} does not apply; of graphs only tangent "
            "can be made."
        )
    for name, parameters in asked:
        if name not in TRANSFORMS:
            raise InputError(f"There is no transform {name!r}; choose from {', '.join(TRANSFORMS)}.")
        columns = tuple(confounds) if name == "confounds" else ()
        steps.append(_step(name, TRANSFORMS[name], parameters, columns))
    return tuple(steps)


def _step(name: str, transformer: Any, parameters: Mapping[str, Any], columns: tuple[str, ...] = ()) -> Step:
    check_parameters(name, parameters, transformer().get_params())
    return Step(name, f"{transformer.__module__}:{transformer.__qualname__}", parameters, columns)
