"""A user's own estimators in a benchmark, from a package, a script or a notebook.

Results of a method are reused only if the method is the same. For an estimator that is given as an object, this is
decided by its parameters and by its code: the source and the code in memory of its class, of its base classes, and of
the functions and objects that they name, with the values of the variables that these use. Installed packages are known
by the name, version and source of what is named; what that calls in turn is not looked at. If anything cannot be
described, stored results are not reused.

Workers are other processes, to which an estimator that was defined in a notebook cannot be named. It is pickled by
cloudpickle, and the pickle is sent with each task over the pipe to the worker. It is never written to a file, so no
pickle is ever read from a results folder.
"""

import base64
import copyreg
import dis
import hashlib
import inspect
import json
import pickle
import re
import secrets
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import cloudpickle
import numpy as np
from sklearn.base import clone

from isocapsnet._validation import InputError
from isocapsnet.evaluation.estimation import as_tuples
from isocapsnet.evaluation.naming import canonical_json, digest_of
from isocapsnet.evaluation.plan import MethodSpec
from isocapsnet.evaluation.preparation import COVARIATES

_VERSION_BITS = 48
#: Folders of Python and of installed packages.
_INSTALLED = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
#: Attributes that Python and scikit-learn add to a class.
_ADDED = re.compile(r"__\w+__|_abc_impl|set_\w+_request")


def describe_estimator(
    estimator: Any,
    name: str | None = None,
    *,
    use_unlabeled: bool = False,
    runtime: Mapping[str, Any] | None = None,
    can_be_saved: bool = False,
) -> MethodSpec:
    """The specification of a scikit-learn classifier that fits graphs ``(n_graphs, n_nodes, n_nodes)``.

    ``runtime`` are parameters of the estimator that do not change its results.
    """
    kind = type(estimator).__name__
    if not hasattr(estimator, "get_params") or not hasattr(estimator, "fit"):
        raise InputError(f"{kind} is no scikit-learn classifier: it has no fit or no get_params.")
    if not hasattr(estimator, "predict_proba"):
        raise InputError(f"{kind} has no predict_proba; a benchmark needs class probabilities.")
    try:
        fresh = clone(estimator)
        if runtime:
            signature = inspect.signature(type(fresh).__init__).parameters
            fresh.set_params(**{key: signature[key].default for key in runtime})
        pickled = _pickle(fresh)
    except Exception as error:  # the code of others can fail in any way
        raise InputError(f"{kind} cannot be copied to worker processes: {error}.") from error
    return specify(
        fresh,
        name=name or kind,
        factory=f"{__name__}:restore_estimator",
        version=source_version(fresh),
        parameters=changed_parameters(fresh)[0],
        runtime={**(runtime or {}), "pickled": pickled},
        use_unlabeled=use_unlabeled,
        can_be_saved=can_be_saved,
    )


def specify(estimator: Any, *, parameters: Mapping[str, Any], use_unlabeled: bool, **identity: Any) -> MethodSpec:
    """A specification with what the class of an estimator says; parameters that are set are not searched over."""
    space = type(estimator).search_space() if hasattr(type(estimator), "search_space") else {}
    # A class without the mixins of scikit-learn has no tags, or none of a classifier.
    tags = estimator.__sklearn_tags__().classifier_tags if hasattr(estimator, "__sklearn_tags__") else None
    return MethodSpec(
        parameters=parameters,
        space={key: values for key, values in space.items() if key not in parameters},
        use_unlabeled=use_unlabeled and "X_unlabeled" in inspect.signature(estimator.fit).parameters,
        is_multiclass=tags is None or tags.multi_class,
        input=COVARIATES if getattr(type(estimator), "input", None) == COVARIATES else MethodSpec.input,
        **identity,
    )


def restore_estimator(pickled: str, **parameters: Any) -> Any:
    """The estimator that :func:`describe_estimator` pickled in the process that runs the benchmark."""
    estimator = pickle.loads(base64.b64decode(pickled))
    current = estimator.get_params()
    chosen = {key: value for key, value in parameters.items() if as_tuples(as_plain(current[key])) != value}
    return estimator.set_params(**chosen) if chosen else estimator


def changed_parameters(estimator: Any) -> tuple[dict[str, Any], list[str]]:
    """The parameters that differ from their defaults, and the names of those that JSON cannot hold as they are."""
    signature = inspect.signature(type(estimator).__init__).parameters
    changed, others = {}, []
    for key, value in estimator.get_params(deep=False).items():
        plain = as_plain(value)
        default = signature[key].default if key in signature else inspect.Parameter.empty
        if value is default or (_is_json(plain) and _is_json(default) and as_tuples(plain) == as_tuples(default)):
            continue
        if _is_json(plain):
            changed[key] = plain
        else:
            others.append(key)
    return changed, others


def as_plain(value: Any) -> Any:
    """Arrays as lists, and numbers of NumPy as numbers of Python."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if type(value) in (list, tuple):
        return type(value)(as_plain(item) for item in value)
    return {key: as_plain(item) for key, item in value.items()} if type(value) is dict else value


def source_version(estimator: Any) -> int:
    """A number that changes with the code and the parameters of an estimator; random if they cannot be read."""
    try:
        described = _Description().describe(estimator)
        return int(digest_of(described)[: _VERSION_BITS // 4], 16)
    except Exception:  # the code of others can fail in any way when it is taken apart
        return secrets.randbits(_VERSION_BITS)


class _Description:
    """Code and values as JSON. Of installed packages, names, versions and sources are taken, not what they call."""

    def __init__(self) -> None:
        #: Objects by their id; they are kept, so that no other object gets the same id.
        self._seen: dict[int, tuple[int, Any]] = {}

    def describe(self, value: Any) -> Any:
        """Raise an error if the source or the state of ``value`` cannot be read."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | float | complex | str | bytes) or value is Ellipsis:
            return [type(value).__name__, repr(value)]
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        if id(value) in self._seen:
            return ["seen", self._seen[id(value)][0]]
        self._seen[id(value)] = len(self._seen), value
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return [str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
        if type(value) is dict:
            return ["dict", *([self.describe(key), self.describe(item)] for key, item in value.items())]
        if type(value) in (list, tuple):
            return [type(value).__name__, *map(self.describe, value)]
        if type(value) in (set, frozenset):
            return ["set", *sorted(canonical_json(self.describe(item)) for item in value)]
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, MethodType):
            return [self.describe(value.__func__), self.describe(value.__self__)]
        if isinstance(value, FunctionType):
            is_installed = _is_installed(value.__module__)  # known by its version and code, also if made by exec
            return self._function(
                value, str(_version_of(value.__module__)) if is_installed else inspect.getsource(value)
            )
        return self._object(value)

    def _object(self, value: Any) -> Any:
        """An estimator by its parameters and attributes, a wrapper by its function, another object as pickle does."""
        if hasattr(value, "get_params"):
            return [self.describe(type(value)), self.describe({**vars(value), **value.get_params(deep=False)})]
        for wrapped in ("__wrapped__", "py_func"):  # functools.lru_cache, numba
            if hasattr(value, wrapped):
                return [type(value).__qualname__, self.describe(getattr(value, wrapped))]
        registered = copyreg.dispatch_table.get(type(value))
        parts: Any = value.__reduce_ex__(4) if registered is None else registered(value)
        if isinstance(parts, str):  # a function in C, by its name
            return [type(value).__name__, str(getattr(value, "__module__", None)), parts]
        make, arguments, *state = parts
        return [
            self.describe(type(value)),
            self.describe(make),
            self.describe(arguments),
            *(self.describe(list(part) if isinstance(part, Iterator) else part) for part in state),
        ]

    def _class(self, cls: type) -> Any:
        return [cls.__qualname__, *(self._class_alone(base) for base in cls.__mro__ if base is not object)]

    def _class_alone(self, cls: type) -> Any:
        """A class without its bases. In a notebook Python finds the source of its functions, not that of the class."""
        source: str | None = None
        with suppress(OSError, TypeError):
            source = inspect.getsource(cls)
        identity = [cls.__module__, cls.__qualname__, source]
        if _is_installed(cls.__module__):
            return [*identity, _version_of(cls.__module__)]
        members = {
            key: self._member(item, source)
            for key, item in vars(cls).items()
            if not _ADDED.fullmatch(key) or (isinstance(item, FunctionType) and key != "__repr__")
        }
        return [*identity, members]

    def _member(self, item: Any, source: str | None) -> Any:
        """A function of a class; its source, if that of the class is not known."""
        if isinstance(item, property):
            return [self._member(function, source) for function in (item.fget, item.fset)]
        function = getattr(item, "__func__", getattr(item, "func", item))
        if isinstance(function, FunctionType):
            return self._function(function, inspect.getsource(function) if source is None else "")
        return self.describe(item)

    def _function(self, function: FunctionType, source: str) -> Any:
        """Source, code, defaults, variables of enclosing functions and, if it is not installed, global variables."""
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        variables = {name: cell.cell_contents for name, cell in cells}
        if not _is_installed(function.__module__):
            scope = function.__globals__
            variables |= {f"global {name}": scope[name] for name in sorted(_global_names(code)) if name in scope}
        state = [function.__defaults__, function.__kwdefaults__, variables]
        return [function.__qualname__, source, _describe_code(code), self.describe(state)]


def _is_installed(module: str) -> bool:
    """Whether a module is part of Python, of this package or of another installed package."""
    package = module.partition(".")[0]
    if package == "__main__":  # what a user wrote, also where the file is that of a notebook server
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return package in sys.stdlib_module_names
    return package == __name__.partition(".")[0] or any(Path(file).is_relative_to(path) for path in _INSTALLED)


def _version_of(module: str) -> str | None:
    version = getattr(sys.modules.get(module.partition(".")[0]), "__version__", None)
    return version if isinstance(version, str) else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _describe_code(code: CodeType) -> Any:
    """What is in memory: the file may have been edited since it was imported."""
    return [
        [part.co_code.hex(), part.co_names, part.co_varnames, [_describe_constant(item) for item in part.co_consts]]
        for part in _codes(code)
    ]


def _describe_constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return "code"
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def _global_names(code: CodeType) -> set[str]:
    load = ("LOAD_GLOBAL", "LOAD_NAME")
    return {str(step.argval) for part in _codes(code) for step in dis.get_instructions(part) if step.opname in load}


def _pickle(estimator: Any) -> str:
    """The pickle as text. Classes that a worker could not import are pickled with their code."""
    module = type(estimator).__module__
    can_be_imported = False
    with suppress(ImportError, ValueError):  # cloudpickle takes the code of __main__ by itself
        can_be_imported = module == "__main__" or find_spec(module) is not None
    with ExitStack() as stack:
        if not can_be_imported and module in sys.modules:
            cloudpickle.register_pickle_by_value(sys.modules[module])
            stack.callback(cloudpickle.unregister_pickle_by_value, sys.modules[module])
        return base64.b64encode(cloudpickle.dumps(estimator)).decode()


def _is_json(value: Any) -> bool:
    """Whether a worker gets this value from JSON; keys of a mapping that are numbers, for example, become text."""
    try:
        return bool(as_tuples(json.loads(canonical_json(value))) == as_tuples(value))
    except InputError:
        return False
