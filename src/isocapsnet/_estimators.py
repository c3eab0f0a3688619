"""A user's own estimators in a benchmark, from a package, a script or a notebook.

Workers are other processes, to which an estimator that was defined in a notebook cannot be named. It is pickled by
cloudpickle, and the pickle is sent with each task over the pipe to the worker. It is never written to a file, so no
pickle is ever read from a results folder.
"""

import base64
import inspect
import json
import pickle
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from types import ModuleType
from typing import Any

import cloudpickle
from sklearn.base import clone

from isocapsnet._code_versions import is_installed, source_version
from isocapsnet._packages import packages_of
from isocapsnet._validation import InputError
from isocapsnet.evaluation.estimation import as_plain, as_tuples
from isocapsnet.evaluation.naming import canonical_json
from isocapsnet.evaluation.plan import MethodSpec
from isocapsnet.evaluation.preparation import COVARIATES


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
        raise InputError(f"{kind} is not a scikit-learn classifier: it has no fit or no get_params.")
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
    """A specification with what the class of an estimator says.

    Parameters that are set, by themselves or by a preset, are not searched over.
    """
    space = type(estimator).search_space() if hasattr(type(estimator), "search_space") else {}
    is_set = {*parameters, *_preset(estimator, parameters.get("preset"))}
    # A class without the mixins of scikit-learn has no tags, or none of a classifier.
    tags = estimator.__sklearn_tags__().classifier_tags if hasattr(estimator, "__sklearn_tags__") else None
    return MethodSpec(
        parameters=parameters,
        space={key: values for key, values in space.items() if key not in is_set},
        use_unlabeled=use_unlabeled and "X_unlabeled" in inspect.signature(estimator.fit).parameters,
        is_multiclass=tags is None or tags.multi_class,
        packages=packages_of(type(estimator)),
        input=COVARIATES if getattr(type(estimator), "input", None) == COVARIATES else MethodSpec.input,
        **identity,
    )


def restore_estimator(pickled: str, **parameters: Any) -> Any:
    """The estimator that :func:`describe_estimator` pickled in the process that runs the benchmark."""
    estimator = pickle.loads(base64.b64decode(pickled))
    current = estimator.get_params()
    chosen = {key: value for key, value in parameters.items() if as_tuples(as_plain(current[key])) != value}
    return estimator.set_params(**chosen) if chosen else estimator


def _preset(estimator: Any, name: Any) -> dict[str, Any]:
    """The parameters that a preset of the estimator sets; none for an estimator without presets."""
    return dict(getattr(estimator, "preset_parameters", lambda name: {})(name))


def changed_parameters(estimator: Any) -> tuple[dict[str, Any], list[str]]:
    """The parameters that differ from their defaults (with a preset, from its values), and the names of those that JSON
    cannot hold as they are."""
    signature = inspect.signature(type(estimator).__init__).parameters
    defaults = {key: parameter.default for key, parameter in signature.items()}
    defaults |= _preset(estimator, getattr(estimator, "preset", None))
    changed, others = {}, []
    for key, value in estimator.get_params(deep=False).items():
        plain = as_plain(value)
        default = defaults.get(key, inspect.Parameter.empty)
        if value is default or (_is_json(plain) and _is_json(default) and as_tuples(plain) == as_tuples(default)):
            continue
        if _is_json(plain):
            changed[key] = plain
        else:
            others.append(key)
    return changed, others


def _pickle(estimator: Any) -> str:
    """The pickle as text. Code that a worker could not import, of the estimator or of any part of it, is in it."""
    with ExitStack() as stack:
        for module in _unimportable_modules():
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        return base64.b64encode(cloudpickle.dumps(estimator)).decode()


def _unimportable_modules() -> list[ModuleType]:
    """Loaded modules that another process would not find, or of which it would find another file."""
    modules = []
    for name, module in list(sys.modules.items()):
        # cloudpickle takes the code of __main__ by itself, and that of a package includes its modules.
        is_user_module = isinstance(module, ModuleType) and module.__name__ == name and "." not in name
        if not is_user_module or name == "__main__" or is_installed(name):
            continue
        spec = None
        with suppress(Exception):  # finders of other packages can fail in any way
            spec = next(filter(None, (finder.find_spec(name, None) for finder in sys.meta_path)), None)
        if spec is None or spec.origin != getattr(module, "__file__", None):
            modules.append(module)
    return modules


def _is_json(value: Any) -> bool:
    """Whether a worker gets this value from JSON; keys of a mapping that are numbers, for example, become text."""
    try:
        return bool(as_tuples(json.loads(canonical_json(value))) == as_tuples(value))
    except InputError:
        return False
