"""A number for the code and the parameters of a user's own estimator.

Results of a method are reused only if the method is the same. For an estimator that is given as an object, this is
decided by its parameters and by its code: the source and the code in memory of its class, of its base classes, and of
the functions and objects that they name, with the values of the variables that these use. Of a module that they name,
the whole source is taken. Of installed packages, the name, version and source of what is named are used, but not what
it calls in turn. If anything cannot be described, stored results are not reused.
"""

import copyreg
import dis
import hashlib
import inspect
import re
import secrets
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from isocapsnet.evaluation.naming import canonical_json, digest_of

_VERSION_BITS = 48
#: Folders of Python and of installed packages.
_INSTALLED = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
#: Attributes that Python and scikit-learn add to a class.
_ADDED = re.compile(r"__\w+__|_abc_impl|set_\w+_request")


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
            return ["module", value.__name__, *_sources(value.__name__)]
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
            if is_installed(value.__module__):  # identified by version and code, also if made by exec
                return self._function(value, str(_version_of(value.__module__)))
            return self._function(value, inspect.getsource(value))
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
        # From Python 3.13 on, these may be lines of another file: those of the main program.
        if source is not None and not re.search(rf"^\s*class {cls.__name__}\b", source, re.MULTILINE):
            source = None
        identity = [cls.__module__, cls.__qualname__, source]
        if is_installed(cls.__module__):
            return [*identity, _version_of(cls.__module__)]
        members = {
            key: self._member(item, source)
            for key, item in vars(cls).items()
            if not _ADDED.fullmatch(key) or (isinstance(item, FunctionType) and key != "__repr__")
        }
        return [*identity, members]

    def _member(self, item: Any, source: str | None) -> Any:
        """A function of a class; its source, if the source of the class is not available."""
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
        if not is_installed(function.__module__):
            scope = function.__globals__
            variables |= {f"global {name}": scope[name] for name in sorted(_global_names(code)) if name in scope}
        state = [function.__defaults__, function.__kwdefaults__, variables]
        return [function.__qualname__, source, _describe_code(code), self.describe(state)]


def is_installed(module: str) -> bool:
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


def _sources(module: str) -> list[str]:
    """The sources of a module and of its loaded sub-modules; none if it is installed."""
    if is_installed(module):
        return []
    inside = [name for name in sorted(sys.modules) if name == module or name.startswith(f"{module}.")]
    return [inspect.getsource(sys.modules[name]) for name in inside]


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
