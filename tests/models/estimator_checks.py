"""What every method of MODELS must do, whatever it learns.

scikit-learn's own checks skip estimators of 3-D input silently, so this list is ours. A check takes ``make``,
which builds the method with settings that fit in a blink; ``make(name=value)`` overrides a parameter.
"""

import inspect
import pickle
import random
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_info, threadpool_limits

from isocapsnet import InputError, load_model, save_model

N_GRAPHS, N_NODES = 24, 12

# What a fit of a blink cannot show: how long it may go on, and what it prints.
UNSEEN = {"patience", "tolerance", "random_state", "verbose"}
# Values of parameters whose range is too small for those of another().
OTHER = {"motif_size": [3]}

# How far float32 arithmetic in another order may move a probability.
CLOSE = 1e-4


def make_data(n_classes=2, *, seed=0, directed=False):
    """Signed weighted graphs ``(24, 12, 12)`` whose classes differ in a triangle of edges; labels 0, 1, ..."""
    rng = np.random.default_rng(seed)
    X = rng.normal(scale=0.3, size=(N_GRAPHS, N_NODES, N_NODES))
    y = np.arange(N_GRAPHS) % n_classes
    for i, j in ((1, 2), (2, 3), (1, 3)):
        X[:, i, j] += y
    if not directed:
        X = np.triu(X, 1) + np.triu(X, 1).swapaxes(1, 2)
    return X.astype(np.float32), y


@cache
def fitted(make):
    """The method fitted once to ``make_data()``; checks share it and leave it as it is."""
    return make().fit(*make_data())


def assert_is_distribution(proba, n_graphs, n_classes):
    assert proba.shape == (n_graphs, n_classes)
    assert np.isfinite(proba).all()
    assert (proba >= 0).all()
    assert_allclose(proba.sum(axis=1), 1, atol=1e-6)


def fits_and_predicts(make, X, y):
    """Fit, and return probabilities that are a distribution."""
    model = make().fit(X, y)
    proba = model.predict_proba(X)
    assert_is_distribution(proba, len(X), len(np.unique(y)))
    return proba


# -- parameters ---------------------------------------------------------------------------------------------


def check_init_stores_its_arguments_unchanged_and_unchecked(make):
    signature = inspect.signature(type(make())).parameters
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in signature.values())
    odd = {name: object() for name in type(make())().get_params()}
    model = type(make())(**odd)
    assert all(getattr(model, name) is value for name, value in odd.items())


def check_get_and_set_params_round_trip(make):
    model = make()
    other = type(model)().set_params(**model.get_params())
    assert other.get_params() == model.get_params()
    with pytest.raises(ValueError, match="no_such_parameter"):
        model.set_params(no_such_parameter=1)


def check_clone_has_the_parameters_and_nothing_learned(make):
    copy = clone(fitted(make))
    assert copy.get_params() == fitted(make).get_params()
    with pytest.raises(NotFittedError):
        copy.predict(make_data()[0])


def check_fit_leaves_the_parameters_alone(make):
    model = make()
    before = dict(model.get_params())
    assert model.fit(*make_data()) is model
    assert model.get_params() == before


def check_unknown_options_are_refused_in_fit(make):
    parameters = make().get_params()
    options = [name for name, value in parameters.items() if isinstance(value, str) or name == "class_weight"]
    for name in options or parameters:
        with pytest.raises(InputError, match=name):
            make(**{name: "no such option"}).fit(*make_data())


def check_search_space_holds_parameters_that_can_be_set(make):
    space = type(make()).search_space()
    assert set(space) <= set(make().get_params())
    for name, values in space.items():
        assert len(values) == len(set(map(repr, values))) > 1
        for value in values:
            make(**{name: value})._check_parameters(N_NODES)


def another(value):
    """A number, switch or list of sizes that differs from ``value``; ``None`` for anything else."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(1, value // 4) if value > 1 else 2
    if isinstance(value, float):
        return value / 2 or 0.5
    return (value[0] + 1, *value[1:]) if isinstance(value, tuple) else None


@cache
def parameters_without_effect(make):
    X, y = make_data()
    before = fitted(make).predict_proba(X)
    space = type(make()).search_space()
    unseen = set()
    for name, value in make().get_params().items():
        others = [other for other in space.get(name, OTHER.get(name, [another(value)])) if other not in (value, None)]
        if (
            others
            and name not in UNSEEN
            and np.array_equal(make(**{name: others[0]}).fit(X, y).predict_proba(X), before)
        ):
            unseen.add(name)
    return unseen


def check_every_parameter_makes_a_difference(make):
    assert not parameters_without_effect(make)


# -- what comes out -----------------------------------------------------------------------------------------


def check_unfitted_methods_say_so(make):
    X, _ = make_data()
    for method in ("predict", "predict_proba", "transform"):
        if hasattr(make(), method):
            with pytest.raises(NotFittedError):
                getattr(make(), method)(X)
    with pytest.raises(NotFittedError):
        save_model(make(), "unused")


def check_probabilities_sum_to_one_and_predict_takes_the_largest(make):
    X, y = make_data()
    model = fitted(make)
    proba = model.predict_proba(X)
    assert_is_distribution(proba, N_GRAPHS, 2)
    assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    assert model.score(X, y) == np.mean(model.predict(X) == y)


def check_answer_depends_on_the_graph(make):
    assert np.ptp(fitted(make).predict_proba(make_data()[0])[:, 0]) > 0


def check_every_label_type_gives_the_same_probabilities(make):
    X, y = make_data()
    expected = fitted(make).predict_proba(X)
    kinds = [
        np.array(["a", "b"], dtype=object)[y],
        np.array([False, True])[y].tolist(),
        np.array([-7, -2])[y][:, None],
    ]
    if "max_epochs" not in make().get_params():  # networks read labels by the same code, and take longer
        kinds += [np.array(["a", "b"])[y], np.array([1.0, 2.0])[y]]
    for labels in kinds:
        model = make().fit(X, labels)
        assert_array_equal(model.classes_, np.unique(labels))
        assert set(model.predict(X)) <= set(model.classes_)
        assert_array_equal(model.predict_proba(X), expected)


def most_classes(make):
    """Three, or two where the method's tags say that it takes no more."""
    return 3 if make().__sklearn_tags__().classifier_tags.multi_class else 2


def check_three_classes_are_told_apart_or_refused(make):
    X, y = make_data(n_classes=3)
    if most_classes(make) == 3:
        assert fits_and_predicts(make, X, y).shape == (N_GRAPHS, 3)
    else:
        with pytest.raises(InputError, match="3 classes"):
            make().fit(X, y)


def check_rare_classes(make):
    X, _ = make_data()
    fits_and_predicts(make, X, np.repeat([0, 1], [N_GRAPHS - 2, 2]))
    if most_classes(make) == 3:
        fits_and_predicts(make, X, np.repeat([0, 1, 2], [N_GRAPHS - 5, 3, 2]))


def check_class_weight_moves_the_probabilities(make):
    if "class_weight" not in make().get_params():
        return
    X, y = make_data()
    # Two epochs, as the other checks have, are too few for a network to have learned its class weights.
    # The leaves of a fully grown tree have one class, whatever its weight.
    settings = {"max_epochs": 8, "min_leaf": 5}
    longer = {name: value for name, value in settings.items() if name in make().get_params()}
    light, heavy = (
        make(class_weight={0: 1.0, 1: weight}, **longer).fit(X, y).predict_proba(X)[:, 1].mean()
        for weight in (0.05, 20.0)
    )
    assert heavy > light


# -- same in, same out --------------------------------------------------------------------------------------


def check_same_random_state_gives_the_same_bits(make):
    X, y = make_data()
    first = fitted(make).predict_proba(X)
    assert_array_equal(fitted(make).predict_proba(X), first)
    np.random.rand()  # noqa: NPY002 (fits with a seed do not depend on the global generator)
    assert_array_equal(make().fit(X, y).predict_proba(X), first)


def global_random_states():
    states = [random.getstate(), pickle.dumps(np.random.get_state())]  # noqa: NPY002
    if "torch" in sys.modules:
        states.append(sys.modules["torch"].get_rng_state().numpy().tobytes())
    return states


def check_global_random_state_is_untouched(make):
    unseeded = {"random_state": None} if "random_state" in make().get_params() else {}
    for model in (make(), make(**unseeded)):
        before = global_random_states()
        model.fit(*make_data()).predict(make_data()[0])
        assert global_random_states() == before


def check_refit_forgets_the_previous_fit(make):
    X, y = make_data(n_classes=most_classes(make), seed=1, directed=True)
    model = make().fit(X[:, :10, :10], y)
    model.fit(*make_data())
    assert_array_equal(model.predict_proba(make_data()[0]), fitted(make).predict_proba(make_data()[0]))


def check_a_graph_is_answered_alike_alone_and_among_others(make):
    X, _ = make_data()
    model = fitted(make)
    together = model.predict_proba(X)
    assert_allclose(np.vstack([model.predict_proba(graph[None]) for graph in X]), together, atol=1e-5)
    order = np.random.default_rng(0).permutation(N_GRAPHS)
    assert_allclose(model.predict_proba(X[order]), together[order], atol=1e-5)


def check_transform_has_one_finite_row_per_graph(make):
    X, y = make_data()
    if not hasattr(fitted(make), "transform"):
        return
    features = fitted(make).transform(X)
    assert len(features) == N_GRAPHS
    assert_array_equal(make().fit_transform(X, y), features)
    assert np.isfinite(features).all()
    assert_allclose(fitted(make).transform(X[3:4]), features[3:4], rtol=1e-3, atol=CLOSE)


# -- kinds of arrays ----------------------------------------------------------------------------------------


def check_input_is_never_written_to(make):
    X, y = make_data()
    X.flags.writeable = y.flags.writeable = False
    before = X.copy()
    make().fit(X, y).predict(X)
    assert_array_equal(X, before)


def check_memory_mapped_input(make):
    X, y = make_data()
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "graphs.npy", X)
        mapped = np.load(Path(folder) / "graphs.npy", mmap_mode="r")
        proba = make().fit(mapped, y).predict_proba(mapped)
        del mapped
    assert_array_equal(proba, fitted(make).predict_proba(X))


def check_number_types_with_equal_values_agree(make):
    X, y = make_data()
    in_double = fits_and_predicts(make, X.astype(np.float64), y)
    assert_allclose(in_double, fitted(make).predict_proba(X), atol=CLOSE)
    counts = np.rint(X * 10)
    as_float = fits_and_predicts(make, counts, y)
    assert_allclose(fits_and_predicts(make, counts.astype(np.int64), y), as_float, atol=CLOSE)
    present = X > 0.3
    as_float = fits_and_predicts(make, present.astype(np.float32), y)
    assert_allclose(fits_and_predicts(make, present, y), as_float, atol=CLOSE)


def check_memory_layout_does_not_matter(make):
    X, y = make_data()
    expected = fitted(make).predict_proba(X)
    strided = np.repeat(X, 2, axis=0)[::2]
    for same in (np.asfortranarray(X), strided):
        assert_array_equal(same, X)
        assert_allclose(make().fit(same, y).predict_proba(same), expected, atol=CLOSE)


def check_nested_lists_are_graphs_too(make):
    X, y = make_data()
    proba = make().fit(X.astype(np.float64).tolist(), y.tolist()).predict_proba(X[:2].tolist())
    assert_allclose(proba, fitted(make).predict_proba(X[:2]), atol=CLOSE)


# -- kinds of graphs ----------------------------------------------------------------------------------------


def check_constant_and_empty_graphs(make):
    X, y = make_data()
    for value in (0, 1, -0.5):
        same = np.full(X.shape, value, dtype=np.float32)
        model = make().fit(same, y)
        for graphs in (same, X):
            assert_is_distribution(model.predict_proba(graphs), N_GRAPHS, 2)
        assert_is_distribution(fitted(make).predict_proba(same), N_GRAPHS, 2)


def check_disconnected_nodes(make):
    X, y = make_data()
    X[:, [0, 5, 11]] = X[:, :, [0, 5, 11]] = 0
    X[3] = 0
    fits_and_predicts(make, X, y)


def check_negative_edges(make):
    X, y = make_data()
    fits_and_predicts(make, -np.abs(X), y)


def check_asymmetric_graphs_with_self_loops(make):
    X, y = make_data(directed=True)
    assert np.abs(np.diagonal(X, axis1=1, axis2=2)).min() > 0
    fits_and_predicts(make, X, y)


def check_streamline_counts(make):
    X, y = make_data()
    counts = np.rint(np.exp(4 + 8 * np.abs(X)))
    assert counts.max() > 1e5
    fits_and_predicts(make, counts, y)


# -- refusals -----------------------------------------------------------------------------------------------


def check_missing_infinite_and_huge_edges_are_refused_by_graph(make):
    X, y = make_data()
    for value in (np.nan, np.inf, -np.inf, 1e101, -1e200):
        bad = X.astype(np.float64)
        bad[5, 2, 3] = value
        with pytest.raises(InputError, match=r"graph 5 .* row 2, column 3"):
            make().fit(bad, y)
        with pytest.raises(InputError, match="graph 5"):
            fitted(make).predict(bad)


def check_shapes_that_are_not_graphs_are_refused(make):
    X, y = make_data()
    refused = (X[0], "dimension"), (X[..., None], "dimension"), (X[:, :, 1:], "square"), (X[:0], "0 graph")
    for bad, sentence in refused:
        with pytest.raises(InputError, match=sentence):
            make().fit(bad, y[: len(bad)])
        with pytest.raises(InputError, match=sentence):
            fitted(make).predict(bad)
    with pytest.raises(InputError, match=r"11 nodes.* 12 nodes"):
        fitted(make).predict(X[:, 1:, 1:])


def check_labels_that_name_no_classes_are_refused(make):
    X, y = make_data()
    one, short, broken, unknown = np.zeros(N_GRAPHS), y[1:], y + 0.5, [None, *y[1:]]
    refused = (one, r"1 class \(0\.0\)"), (short, "23 labels"), (broken, "fractional"), (unknown, "no label")
    for labels, sentence in refused:
        with pytest.raises(InputError, match=sentence):
            make().fit(X, labels)


# -- company ------------------------------------------------------------------------------------------------


def check_pickling(make):
    X, _ = make_data()
    copy = pickle.loads(pickle.dumps(fitted(make)))
    assert_array_equal(copy.predict_proba(X), fitted(make).predict_proba(X))
    assert pickle.loads(pickle.dumps(make())).get_params() == make().get_params()


def check_saving_and_loading(make):
    X, _ = make_data()
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_model(save_model(fitted(make), Path(folder) / "model"))
    assert type(loaded) is type(fitted(make))
    assert loaded.get_params() == fitted(make).get_params()
    assert_array_equal(loaded.predict_proba(X), fitted(make).predict_proba(X))
    if hasattr(loaded, "transform"):
        assert_array_equal(loaded.transform(X), fitted(make).transform(X))


def check_works_in_scikit_learn_tools(make):
    X, y = make_data()
    pipeline = Pipeline([("squeeze", FunctionTransformer(np.tanh)), ("model", make())])
    grid = {f"model__{name}": values[-1:] for name, values in list(make().search_space().items())[:1]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="roc_auc", error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert_array_equal(search.predict(X), search.best_estimator_.predict(X))
    assert all(search.best_estimator_.get_params()[name] == value for name, [value] in grid.items())


def check_work_runs_on_one_thread_and_leaves_the_threads_of_the_program_alone(make):
    X, y = make_data()
    seen = []

    def note():
        seen.append(max(pool["num_threads"] for pool in threadpool_info()))

    class Watched(type(make())):
        def _fit(self, *data):
            note()
            super()._fit(*data)

        def _check_fitted(self, X):
            note()
            return super()._check_fitted(X)

    if "torch" in sys.modules:
        sys.modules["torch"].get_num_threads()  # the first call of a thread sets its number
    with threadpool_limits(2):
        before = threadpool_info()
        model = Watched(**make().get_params()).fit(X, y)
        asked = ["predict", *(name for name in ("transform", "reconstruct", "match") if hasattr(model, name))]
        if getattr(model, "windows", "") in ("neighborhood", "diagonal"):
            asked = ["predict", "transform", "match_motifs"]
        for name in asked:
            getattr(model, name)(X)
        assert threadpool_info() == before
    assert seen == [1] * (1 + len(asked))


CHECKS = {name: function for name, function in list(globals().items()) if name.startswith("check_")}
