"""A user's own estimators in a benchmark, from a package, a script or a notebook.

Results of a method are reused only if the method is the same. For an estimator that is given as an object, this is
decided by its parameters and by the source of its class, of its base classes and of the estimators and functions among
its parameters. If any source cannot be read, stored results are not reused. Functions that these sources call from
elsewhere are not looked at: change a parameter, or use another results folder, after changing such a function.

Workers are other processes, to which an estimator that was defined in a notebook cannot be named. It is pickled by
cloudpickle, and the pickle is sent with each task over the pipe to the worker. It is never written to a file, so no
pickle is ever read from a results folder.
"""

import base64
import inspect
import pickle
import re
import secrets
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from types import FunctionType, MethodType
from typing import Any

import cloudpickle
import numpy as np
from sklearn.base import clone

from isocapsnet._validation import InputError
from isocapsnet.evaluation.estimation import as_tuples
from isocapsnet.evaluation.naming import canonical_json, digest_of
from isocapsnet.evaluation.plan import MethodSpec

_VERSION_BITS = 48
#: Attributes that Python and scikit-learn add to a class.
_ADDED = re.compile(r"__\w+__|_abc_impl|set_\w+_request")


def describe_estimator(estimator: Any, name: str | None = None, *, use_unlabeled: bool = False) -> MethodSpec:
    """The specification of a scikit-learn classifier that fits graphs ``(n_graphs, n_nodes, n_nodes)``."""
    kind = type(estimator).__name__
    if not hasattr(estimator, "get_params") or not hasattr(estimator, "fit"):
        raise InputError(f"{kind} is no scikit-learn classifier: it has no fit or no get_params.")
    if not hasattr(estimator, "predict_proba"):
        raise InputError(f"{kind} has no predict_proba; a benchmark needs class probabilities.")
    fresh = clone(estimator)
    return specify(
        fresh,
        name=name or kind,
        factory=f"{__name__}:restore_estimator",
        version=source_version(fresh),
        parameters=changed_parameters(fresh),
        runtime={"pickled": _pickle(fresh)},
        use_unlabeled=use_unlabeled,
        can_be_saved=False,
    )


def specify(estimator: Any, *, parameters: Mapping[str, Any], use_unlabeled: bool, **identity: Any) -> MethodSpec:
    """A specification with what the class of an estimator says; parameters that are set are not searched over."""
    space = type(estimator).search_space() if hasattr(type(estimator), "search_space") else {}
    return MethodSpec(
        parameters=parameters,
        space={key: values for key, values in space.items() if key not in parameters},
        use_unlabeled=use_unlabeled and "X_unlabeled" in inspect.signature(estimator.fit).parameters,
        is_multiclass=estimator.__sklearn_tags__().classifier_tags.multi_class,
        **identity,
    )


def restore_estimator(pickled: str, **parameters: Any) -> Any:
    """The estimator that :func:`describe_estimator` pickled in the process that runs the benchmark."""
    estimator = pickle.loads(base64.b64decode(pickled))
    current = estimator.get_params()
    return estimator.set_params(**{k: v for k, v in parameters.items() if as_tuples(current[k]) != v})


def changed_parameters(estimator: Any) -> dict[str, Any]:
    """The parameters that differ from their defaults and can be written as JSON."""
    signature = inspect.signature(type(estimator).__init__).parameters
    defaults = {key: parameter.default for key, parameter in signature.items() if _is_json(parameter.default)}
    parameters = {key: value for key, value in estimator.get_params(deep=False).items() if _is_json(value)}
    return {key: value for key, value in parameters.items() if key not in defaults or value != defaults[key]}


def source_version(estimator: Any) -> int:
    """A number that changes with the source and the parameters of an estimator; random if they cannot be read."""
    try:
        return int(digest_of(_describe(estimator))[: _VERSION_BITS // 4], 16)
    except (OSError, TypeError, ValueError):
        return secrets.randbits(_VERSION_BITS)


def _describe(value: Any) -> Any:
    """Source and parameters as JSON; OSError or TypeError if the source cannot be read."""
    if _is_json(value):
        return value
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, digest_of(value.tolist())]
    if isinstance(value, Mapping):
        return {str(key): _describe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_describe(item) for item in value]
    if isinstance(value, type):
        return [value.__qualname__, *(_class_source(base) for base in value.__mro__ if base is not object)]
    if isinstance(value, FunctionType | MethodType):
        return inspect.getsource(value)
    if hasattr(value, "get_params"):
        return [_describe(type(value)), _describe(value.get_params(deep=False))]
    raise TypeError(type(value).__name__)


def _class_source(cls: type) -> Any:
    """The source of a class; in a notebook, where Python does not find it, that of its functions and its attributes."""
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):
        members = vars(cls).items()
        return {key: _member(m) for key, m in members if not _ADDED.fullmatch(key) or isinstance(m, FunctionType)}


def _member(item: Any) -> Any:
    function = getattr(item, "__func__", getattr(item, "fget", item))
    return inspect.getsource(function) if isinstance(function, FunctionType) else _describe(item)


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
    try:
        canonical_json(value)
    except InputError:
        return False
    return True
