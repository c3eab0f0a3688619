"""Models on disk: what comes back is what was saved, or one sentence."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError

from isocapsnet import InputError, load_model, save_model
from isocapsnet.models import _persistence
from isocapsnet.models.baselines import ConstantClassifier, LinearClassifier


def fitted(labels=(0, 1), **parameters):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 4, 4))
    model = LinearClassifier(**{"random_state": 0} | parameters)
    return model.fit(X, np.array([labels[i % len(labels)] for i in range(12)])), X


def header_of(path):
    with safe_open(path, framework="np") as file:
        names = file.keys()
        return file.metadata(), {name: file.get_tensor(name) for name in names}


def rewrite(path, **changes):
    """The same file with some of its content changed and a digest that fits."""
    header, arrays = header_of(path)
    content = json.loads(header["isocapsnet"]) | changes
    digest = _persistence._digest(content, arrays)
    save_file(arrays, path, {"isocapsnet": json.dumps(content), "sha256": digest})


@pytest.mark.parametrize(
    "labels",
    [("ill", "well"), (-1, 1), (True, False), (0.0, 1.0), (np.uint8(3), np.uint8(7)), ("ä", "\n", '"')],
    ids=["text", "negative", "bool", "float", "uint8", "odd text"],
)
def test_a_loaded_model_answers_bit_for_bit_with_labels_of_the_same_type(tmp_path, labels):
    model, X = fitted(labels)
    loaded = load_model(save_model(model, tmp_path / "model.isocaps"))
    assert type(loaded) is LinearClassifier
    assert loaded.classes_.dtype == model.classes_.dtype
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.get_params() == model.get_params()


def test_object_labels_come_back_as_objects(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 3, 3))
    model = ConstantClassifier().fit(X, np.array(["a", "bb", "a"] * 2, dtype=object))
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.classes_.dtype == object
    assert_array_equal(loaded.predict(X), model.predict(X))


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.integers() | st.text(), inner),
)


@given(nested)
def test_decoding_inverts_encoding_through_json(value):
    decoded = _persistence._decode(json.loads(json.dumps(_persistence._encode(value))))
    assert decoded == value
    assert repr(decoded) == repr(value)


def test_class_weights_keep_their_integer_labels(tmp_path):
    model, _ = fitted(class_weight={0: 1.0, 1: np.float64(2.5)})
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.class_weight == {0: 1.0, 1: 2.5}


def test_a_parameter_json_cannot_hold_is_left_out_with_a_warning(tmp_path):
    model, X = fitted(random_state=np.random.RandomState(0))
    with pytest.warns(UserWarning, match="random_state of LinearClassifier"):
        save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.random_state is None
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_a_damaged_byte_is_noticed_wherever_it_is(tmp_path):
    model, X = fitted()
    path = save_model(model, tmp_path / "model")
    whole, expected = path.read_bytes(), model.predict_proba(X)
    refused = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x15
        path.write_bytes(damaged)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                loaded = load_model(path)
        except InputError:
            refused += 1
        else:
            # Only bytes that carry no content, such as the padding of the header, may pass.
            assert_array_equal(loaded.predict_proba(X), expected)
    assert refused > 0.98 * len(whole)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused(tmp_path, kept):
    path = save_model(fitted()[0], tmp_path / "model")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match="damaged"):
        load_model(path)


def test_foreign_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load_model(tmp_path / "nothing")
    with pytest.raises(InputError, match="not a model"):
        load_model(tmp_path)
    (tmp_path / "text").write_text("hello, this is not a model at all")
    with pytest.raises(InputError, match="not a model"):
        load_model(tmp_path / "text")
    save_file({"weights": np.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="not a model"):
        load_model(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 3, "isocapsnet": "9.0"}, "saved by isocapsnet 9.0, which is newer"),
        ({"method": "oracle"}, "holds 'oracle' of isocapsnet"),
        ({"method_version": 99}, "holds 'linear' of isocapsnet"),
        ({"parameters": {"dict": [["speed", 3]]}}, "'speed'"),
        ({"values": {"dict": []}}, "cannot be read by isocapsnet .* fit the model again"),
    ],
)
def test_what_a_newer_version_wrote_is_refused(tmp_path, change, sentence):
    path = save_model(fitted()[0], tmp_path / "model")
    rewrite(path, **change)
    with pytest.raises(InputError, match=sentence):
        load_model(path)


def test_a_model_from_before_a_fix_is_loaded_with_a_warning(tmp_path):
    path = save_model(fitted()[0], tmp_path / "model")
    rewrite(path, method_version=0)
    with pytest.warns(UserWarning, match="before a fix"):
        load_model(path)


def test_only_fitted_methods_are_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save_model(LinearClassifier(), tmp_path / "model")

    class Mine(ConstantClassifier):
        pass

    with pytest.raises(InputError, match="Mine cannot be saved"):
        save_model(Mine(), tmp_path / "model")
    with pytest.raises(InputError, match="bytes_ cannot be saved"):
        save_model(fitted((b"a", b"b"))[0], tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = save_model(fitted()[0], tmp_path / "model")
    before = path.read_bytes()

    def full_disk(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full_disk)
    with pytest.raises(InputError, match="No space left"):
        save_model(fitted(("a", "b"))[0], path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="cannot be written"):
        save_model(fitted()[0], tmp_path / "no" / "such" / "folder")
