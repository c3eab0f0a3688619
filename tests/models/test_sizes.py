"""Layer sizes of every method: any sequence of whole numbers, kept through saving, and nothing else."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isocapsnet import InputError, load_model, save_model
from isocapsnet.models import MODELS
from tests.models.estimator_checks import make_data
from tests.models.test_estimator_checks import MAKE


def size_parameters():
    for method, model in MODELS.items():
        for name, value in model().get_params().items():
            if isinstance(value, tuple):
                yield method, name, value


SIZES = list(size_parameters())
KINDS = {"list": list, "tuple": tuple, "array": np.array, "small array": lambda sizes: np.array(sizes, dtype=np.uint8)}


def test_sizes_are_found_in_every_method_that_has_them():
    assert {name for _, name, _ in SIZES} == {
        "residual_sizes", "decoder_sizes", "hidden_sizes", "head_sizes", "channels",
    }  # fmt: skip
    assert ("isocapsnet", "residual_sizes", (64,)) in SIZES and ("isocapsnet", "decoder_sizes", (512, 1024)) in SIZES


@pytest.mark.parametrize(("method", "name", "default"), SIZES)
def test_any_sequence_of_sizes_fits_saves_and_loads_alike(method, name, default, tmp_path):
    X, y = make_data()
    sizes = (4, 3) if len(default) == 2 else (4,)
    answers = []
    for kind in KINDS.values():
        given = kind(sizes)
        model = MAKE[method](**{name: given}).fit(X, y)
        assert getattr(model, name) is given
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loaded = load_model(save_model(model, tmp_path / "model"))
        assert list(getattr(loaded, name)) == list(sizes)
        assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        answers.append(model.predict_proba(X))
    for other in answers[1:]:
        assert_array_equal(other, answers[0])


@pytest.mark.parametrize(("method", "name", "default"), SIZES)
@pytest.mark.parametrize(
    "sizes",
    [
        *(4, None, "43", b"43", (4, 0), (4, -1), (4.0, 3), (4, True), (4, "3"), ((4,), 3), {4: 3}, [1] * 101),
        *(np.array(4), np.array([[4, 3]]), np.array([4.0, 3.0])),
    ],
    ids=str,
)
def test_anything_else_is_refused_in_a_sentence_that_names_the_parameter(method, name, default, sizes):
    with pytest.raises(InputError, match=name):
        MAKE[method](**{name: sizes}).fit(*make_data())


@pytest.mark.parametrize("name", ["residual_sizes", "decoder_sizes"])
def test_an_mlp_without_hidden_layers_is_a_linear_map(name, tmp_path):
    X, y = make_data()
    model = MAKE["isocapsnet"](**{name: ()}).fit(X, y)
    assert_array_equal(load_model(save_model(model, tmp_path / "model")).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("method", "parameters", "instead"),
    [
        ("isocapsnet", {"kernel_size": 10}, "matching='spectral'"),
        ("isocapsnet-released", {"kernel_size": 9}, "at most 8, or .*matching='spectral'"),
        ("isonn", {"kernel_size": 10}, "FastIsoNNClassifier"),
        ("isocapsnet", {"kernel_size": 21, "matching": "spectral"}, "at most 20"),
        ("fastisonn", {"kernel_size": 21}, "at most 20"),
    ],
)
def test_a_kernel_size_that_cannot_work_is_refused_with_what_would(method, parameters, instead):
    X = np.random.default_rng(0).normal(size=(4, 24, 24))
    with pytest.raises(InputError, match=rf"kernel_size={parameters['kernel_size']}.*{instead}"):
        MODELS[method](**parameters).fit(X, [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("method", "instead"), [("isocapsnet", "matching='spectral'"), ("isonn", "FastIsoNNClassifier")]
)
def test_a_search_that_would_take_days_is_refused_with_what_would_work(method, instead):
    X = np.random.default_rng(0).normal(size=(4, 90, 90))
    with pytest.raises(InputError, match=rf"kernel_size=9 takes about .* at most 8, a larger stride, or {instead}"):
        MODELS[method](kernel_size=9).fit(X, [0, 1, 0, 1])


@pytest.mark.parametrize(("kernel_size", "settings"), [(10, {}), (20, {"weight_sharing": "template"})])
def test_spectral_matching_takes_templates_whose_permutations_cannot_be_listed(kernel_size, settings, tmp_path):
    X = np.random.default_rng(0).normal(size=(6, kernel_size + 3, kernel_size + 3))
    model = MAKE["isocapsnet"](kernel_size=kernel_size, matching="spectral", **settings).fit(X, [0, 1] * 3)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.match(X).permutations.max() > 10**6  # numbers of permutations, far beyond any table
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.predict_proba(X) == pytest.approx(model.predict_proba(X), abs=1e-6)  # sums by atomics on a GPU


def test_primary_capsules_of_large_templates_are_small_by_default():
    X, y = np.random.default_rng(0).normal(size=(4, 13, 13)), [0, 1, 0, 1]

    def sizes(**parameters):
        module = MAKE["isocapsnet"](matching="spectral", **parameters).fit(X, y).module_
        assert module.digit.weight.shape[-2] == module.primary.size
        return module.primary.size, module.primary.project is not None

    assert sizes(kernel_size=9) == (81, False)
    assert sizes(kernel_size=10) == (16, False)
    assert sizes(kernel_size=10, primary_size=None) == (100, False)
    assert sizes(kernel_size=10, primary_size=7) == (7, True)
    assert sizes(kernel_size=4, primary_size=np.int64(7)) == (7, True)


@pytest.mark.parametrize("size", ["large", 0, -1, 2.5, True])
def test_other_sizes_of_primary_capsules_are_refused(size):
    with pytest.raises(InputError, match="primary_size"):
        MAKE["isocapsnet"](primary_size=size).fit(*make_data())


def test_a_file_of_a_large_template_from_before_its_other_eigenvectors_is_loaded_with_a_warning(tmp_path, monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(4, 13, 13)), [0, 1, 0, 1]
    for kernel_size, warns in ((10, True), (4, False)):
        model = MAKE["isocapsnet"](kernel_size=kernel_size, matching="spectral").fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load_model(save_model(model, tmp_path / "new"))
        with monkeypatch.context() as patch:
            patch.setattr(type(model), "results_version", 5)
            path = save_model(model, tmp_path / "old")
        with pytest.warns(UserWarning, match="fit it again") if warns else nullcontext():
            load_model(path)
