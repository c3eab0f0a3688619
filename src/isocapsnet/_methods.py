"""Methods and transforms as a user gives them (names, classes, estimators), as the evaluation needs them."""

import ast
import inspect
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from importlib.metadata import entry_points
from typing import Any

from isocapsnet._code_versions import source_version
from isocapsnet._estimators import changed_parameters, describe_estimator, specify
from isocapsnet._validation import InputError
from isocapsnet.evaluation.estimation import as_plain, as_tuples
from isocapsnet.evaluation.jobs import method_label
from isocapsnet.evaluation.plan import MethodSpec
from isocapsnet.evaluation.preparation import NO_TRANSFORM, Step

#: Other packages add methods by entry points of this group: a name on the command line = ``"package.module:Class"``.
PLUGIN_GROUP = "isocapsnet.methods"
#: Parameters that do not change results.
_RUNTIME = ("device", "verbose")

#: A name with parameters in brackets, a class, an estimator, or an estimator with a name of its own.
Method = str | type | Any | tuple[str, Any]


# -- text ---------------------------------------------------------------------------------------------------------


def split_names(text: str) -> list[tuple[str, dict[str, Any]]]:
    """``"a,b[x=1,y=two]"`` as ``[("a", {}), ("b", {"x": 1, "y": "two"})]``."""
    names = []
    for item in re.split(r",(?![^\[]*\])", text):
        match = re.fullmatch(r"\s*([\w-]+)\s*(?:\[(.*)\])?\s*", item)
        if match is None:
            raise InputError(f"{item!r} cannot be read; write NAME or NAME[parameter=value,...].")
        names.append((match[1], _parse_settings(match[2] or "")))
    return names


def _parse_settings(text: str) -> dict[str, Any]:
    """``"x=1,sizes=(64,32),mode=log"`` as a dict; values that are no Python literals are text."""
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
    """A Python literal, ``true`` or ``false``, or else the text itself."""
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text.strip(), text.strip()))
    except (ValueError, SyntaxError):
        return text.strip()


# -- methods ------------------------------------------------------------------------------------------------------


def find_class(name: str) -> Any:
    """The class of a method by its name: one of MODELS or CONTROLS, or one that another package registered."""
    from isocapsnet.models import CONTROLS, MODELS

    if name in MODELS or name in CONTROLS:
        return MODELS.get(name) or CONTROLS[name]
    plugins = load_plugins()
    if name not in plugins:
        raise InputError(f"There is no method {name!r}; choose from {', '.join([*MODELS, *CONTROLS, *plugins])}.")
    return plugins[name]


def load_plugins() -> dict[str, Any]:
    """The methods of other packages by name. There is a warning for one that fails or has the name of another."""
    from isocapsnet.models import CONTROLS, MODELS

    plugins: dict[str, Any] = {}
    for entry in entry_points(group=PLUGIN_GROUP):
        try:
            if entry.name in MODELS or entry.name in CONTROLS or entry.name in plugins:
                raise InputError("another method has this name")
            model = entry.load()
            if not hasattr(model, "fit") or not hasattr(model, "get_params"):
                raise InputError("it is not a scikit-learn estimator")
            plugins[entry.name] = model
        except Exception as error:  # the code of others can fail in any way
            warnings.warn(f"The method plugin {entry.name!r} ({entry.value}) is not used: {error}.", stacklevel=2)
    return plugins


def list_methods(
    methods: str | Method | Sequence[Method], *, device: str | None = None, use_unlabeled: bool = False
) -> tuple[MethodSpec, ...]:
    """Specifications of ``"all"``, of ``"NAME,NAME[parameter=value],..."``, of one method or of a list of methods."""
    from isocapsnet.models import MODELS

    if isinstance(methods, str):
        methods = [*MODELS, *load_plugins()] if methods == "all" else [methods]
    elif not isinstance(methods, Iterable) or hasattr(methods, "get_params") or _is_pair(methods):
        methods = [methods]
    options: dict[str, Any] = {"device": device, "use_unlabeled": use_unlabeled}
    specs: list[MethodSpec] = []
    for method in methods:
        if isinstance(method, MethodSpec):
            specs.append(method)
        elif isinstance(method, str):
            specs += [make_method(*item, **options) for item in split_names(method)]
        else:
            specs.append(_make_own(method, **options))
    return tuple(specs)


def _is_pair(methods: Any) -> bool:
    """Whether a tuple is an estimator with a name, not two methods."""
    if not isinstance(methods, tuple) or len(methods) != 2 or not isinstance(methods[0], str):
        return False
    if not isinstance(methods[1], type) and not hasattr(methods[1], "get_params"):
        return False
    from isocapsnet.models import MODELS

    return re.fullmatch(r"[^\[\],]+", methods[0]) is not None and methods[0] not in {*MODELS, *load_plugins()}


def _make_own(method: Any, *, device: str | None, use_unlabeled: bool) -> MethodSpec:
    """A method that is given as a class or an estimator, with or without a name."""
    from isocapsnet.models import MODELS, GraphClassifier

    name, given = method if isinstance(method, tuple) and len(method) == 2 else (None, method)
    if not isinstance(name, str | None):
        raise InputError(f"The name of a method must be text, not {name!r}; write (name, estimator).")
    estimator = _with_defaults(given) if isinstance(given, type) else given
    model = type(estimator)
    builtin = next((key for key, other in MODELS.items() if model is other), None)
    if (name or model.__name__) in MODELS and (name or model.__name__) != builtin:
        raise InputError(f"{name or model.__name__} is the name of another method; give {model.__name__} another name.")
    runtime: dict[str, Any] = {}
    if issubclass(model, GraphClassifier):
        asked = {"device": device}
        values, defaults = estimator.get_params(deep=False), inspect.signature(model.__init__).parameters
        for key in (key for key in _RUNTIME if key in values and key in defaults):
            is_default = str(values[key]) == str(defaults[key].default)
            value = asked.get(key) if is_default else values[key]
            runtime |= {} if value is None else {key: str(value) if key == "device" else as_plain(value)}
    if builtin is not None and name in (None, builtin):
        parameters, others = changed_parameters(estimator)
        if not set(others) - set(_RUNTIME):
            parameters = {key: value for key, value in parameters.items() if key not in _RUNTIME}
            return make_method(builtin, parameters, use_unlabeled=use_unlabeled, **runtime)
        name = None
    return describe_estimator(
        estimator, name, use_unlabeled=use_unlabeled, runtime=runtime, can_be_saved=builtin is not None
    )


def _with_defaults(model: Any) -> Any:
    try:
        return model()
    except TypeError as error:
        raise InputError(f"{model.__name__} needs arguments; give an estimator: {model.__name__}(...).") from error


def list_one_method(method: Method, **options: Any) -> MethodSpec:
    """The same for an argument that takes one method."""
    specs = list_methods([method], **options)
    if len(specs) > 1:
        raise InputError(f"method={method} names {len(specs)} methods; name one.")
    return specs[0]


def make_method(name: str, parameters: Mapping[str, Any], *, use_unlabeled: bool = False, **runtime: Any) -> MethodSpec:
    """A method by its name."""
    from isocapsnet.models import CONTROLS, MODELS
    from isocapsnet.models._parameters import check_fields

    model, is_ours = find_class(name), name in MODELS or name in CONTROLS
    estimator = _with_defaults(model)
    defaults = estimator.get_params()
    parameters = {key: as_plain(value) for key, value in parameters.items()}
    getattr(model, "refuse_moved", lambda parameters: None)(parameters)
    check_parameters(name, parameters, defaults)
    given = model(**{key: as_tuples(value) for key, value in parameters.items()})
    if is_ours and is_dataclass(given):
        check_fields(given)  # what does not depend on the data, before a job runs
    return specify(
        estimator,
        name=name,
        factory=f"{model.__module__}:{model.__qualname__}",
        # A class of another package inherits the version of ours, which says nothing about its own code.
        version=(version_of(given) if is_ours else None) or source_version(estimator),
        parameters=parameters,
        runtime={key: value for key, value in runtime.items() if value is not None and key in defaults},
        use_unlabeled=use_unlabeled,
        can_be_saved=name not in CONTROLS and model.__module__.startswith("isocapsnet.models."),
    )


def version_of(estimator: Any) -> Any:
    """The version of the results of an estimator of ours; None without one."""
    return getattr(estimator, "results_version", getattr(estimator, "version", None))


def check_parameters(name: str, parameters: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse a parameter that the method does not have."""
    for parameter in parameters:
        if parameter not in defaults:
            raise InputError(f"{name} has no parameter {parameter!r}; it has {', '.join(defaults) or 'none'}.")


# -- preparation --------------------------------------------------------------------------------------------------


def list_steps(
    *,
    connectivity: str | None,
    transform: str | Sequence[str],
    harmonize: bool,
    confounds: Sequence[str],
    has_series: bool,
) -> tuple[Step, ...]:
    """The pipeline inside each fold: connectivity, then site harmonisation, confounds and transforms.

    Harmonisation and confound regression come first, unless ``transform`` names them at another position.
    """
    from isocapsnet.datasets.connectivity import CONNECTIVITY

    text = transform if isinstance(transform, str) else ",".join(transform or ())
    asked = split_names(text) if text else []
    names = [name for name, _ in asked]
    for name, wanted in (("confounds", bool(confounds)), ("harmonize", harmonize)):
        if wanted and name not in names:
            asked.insert(0, (name, {}))
    if "confounds" in names and not confounds:
        raise InputError('The transform confounds needs the columns to regress out, such as confounds=["age", "sex"].')
    steps = []
    if has_series:
        kind = connectivity or "correlation"
        if kind not in CONNECTIVITY:
            raise InputError(f"There is no connectivity {kind!r}; choose from {', '.join(CONNECTIVITY)}.")
        steps.append(make_step("connectivity", {"kind": kind}))
    elif connectivity == "tangent":
        asked.insert(0, ("tangent", {}))
    elif connectivity is not None:
        raise InputError(
            f"connectivity={connectivity} does not apply: the data are graphs already. For graphs only tangent is "
            "available."
        )
    for name, parameters in asked:
        if name == "connectivity":
            raise InputError("connectivity is not a transform; choose it with connectivity=.")
        steps.append(make_step(name, parameters, tuple(confounds) if name == "confounds" else ()))
    return tuple(steps)


def list_transforms(names: str | Sequence[str]) -> dict[str, Step]:
    """Transforms among which a search chooses, by what the user wrote, such as ``tangent[shrinkage=0.5]``."""
    from isocapsnet.datasets.connectivity import TRANSFORMS

    text = names if isinstance(names, str) else ",".join(names or ())
    known = [name for name in TRANSFORMS if name not in ("confounds", "harmonize")]
    transforms = {}
    for name, parameters in split_names(text) if text else []:
        if name == NO_TRANSFORM:
            continue  # always among the candidates
        if name not in known:
            raise InputError(f"choose_transform={name} is not supported; use {', '.join(known)}.")
        transforms[method_label(name, parameters)] = make_step(name, parameters)
    return transforms


def make_step(name: str, parameters: Mapping[str, Any], columns: tuple[str, ...] = ()) -> Step:
    """The step of a preparation by its name: ``connectivity`` or one of TRANSFORMS."""
    from isocapsnet.datasets.connectivity import TRANSFORMS, TimeSeriesConnectivity

    transformers: dict[str, Any] = {"connectivity": TimeSeriesConnectivity, **TRANSFORMS}
    if name not in transformers:
        raise InputError(f"There is no transform {name!r:.60}; choose from {', '.join(TRANSFORMS)}.")
    transformer = transformers[name]
    check_parameters(name, parameters, transformer().get_params())
    return Step(name, f"{transformer.__module__}:{transformer.__qualname__}", parameters, columns)
