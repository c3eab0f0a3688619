"""Model files that were damaged or forged, with a digest that fits: one sentence, and nothing large is built."""

import copy
import json
import os
import random
import resource
import warnings
from contextlib import suppress

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors import safe_open
from safetensors.numpy import save_file

from isocapsnet import InputError, load_model, save_model
from isocapsnet.models import MODELS, _persistence
from tests.models.estimator_checks import make_data
from tests.models.test_estimator_checks import MAKE

SMALL = {"isocapsnet": {"decoder_sizes": (8,), "n_templates": 1}, "isocapsnet-released": {"decoder_sizes": (8,)}}
NETWORKS = [name for name, model in MODELS.items() if "learning_rate" in model().get_params()]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file of every method, as content and arrays."""
    folder, files = tmp_path_factory.mktemp("models"), {}
    for method, make in MAKE.items():
        path = save_model(make(**SMALL.get(method, {})).fit(*make_data()), folder / method)
        with safe_open(path, framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            files[method] = json.loads(file.metadata()["isocapsnet"]), arrays
    return files


def write(path, content, arrays):
    """A file with this content and a digest that fits."""
    text = content if isinstance(content, str) else json.dumps(content)
    digest = _persistence._digest(json.loads(text), arrays) if not isinstance(content, str) else "none"
    save_file(
        {name: np.asarray(a, order="C") for name, a in arrays.items()}, path, {"isocapsnet": text, "sha256": digest}
    )
    return path


def with_parameters(content, **parameters):
    pairs = [[name, value] for name, value in content["parameters"]["dict"] if name not in parameters]
    return content | {"parameters": {"dict": [*pairs, *map(list, parameters.items())]}}


def assert_refused(path, fact=""):
    """One sentence on one line that names the file; no memory to speak of."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=fact) as caught:
        load_model(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    sentence = str(caught.value)
    assert path.name in sentence and len(sentence) < 700
    assert sentence.isprintable() and sentence.endswith(".")


@pytest.mark.parametrize("method", MODELS)
def test_arrays_must_be_those_of_the_method(saved, method, tmp_path):
    content, arrays = saved[method]
    name = max(arrays, key=lambda name: arrays[name].size)
    array = arrays[name]
    others = {
        "unexpected array": arrays | {"extra": np.zeros(3, np.float32)},
        "no array": {key: value for key, value in arrays.items() if key != name},
        "shape": arrays | {name: array[..., None]},
        "instead of": arrays | {name: array.astype(np.float16)},
        f"{name}": arrays | {name: np.concatenate([array, array], axis=-1)},
    }
    for fact, changed in others.items():
        assert_refused(write(tmp_path / "model", content, changed), fact)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", MODELS)
def test_weights_that_are_not_finite_are_refused(saved, method, value, tmp_path):
    content, arrays = saved[method]
    name = next(name for name, array in arrays.items() if array.dtype.kind == "f" and array.size)
    changed = arrays[name].copy()
    changed.flat[-1] = value
    assert_refused(write(tmp_path / "model", content, arrays | {name: changed}), "not finite")


def test_weights_too_large_to_compute_with_give_no_probabilities_rather_than_wrong_ones(saved, tmp_path):
    content, arrays = saved["cnn"]
    huge = {name: np.full_like(array, 1e30) for name, array in arrays.items()}
    with pytest.raises(InputError, match="probabilities of graph 0"):
        load_model(write(tmp_path / "model", content, huge)).predict_proba(make_data()[0])


ODD = ["1", "x", 1.0, 1.5, None, True, -1, 0, [], {}, 10**40, float("nan"), "\x1b[31m", "\ud800"]


@pytest.mark.parametrize("key", ["format", "method_version", "isocapsnet", "method", "n_nodes", "classes", "values"])
@pytest.mark.parametrize("value", ODD, ids=ascii)
def test_odd_values_in_the_header_are_refused(saved, key, value, tmp_path):
    content, arrays = saved["linear"]
    path = write(tmp_path / "model", content | {key: value}, arrays)
    if (key, value) == ("method_version", 0) and value is not False:
        with pytest.warns(UserWarning, match="before a fix"):
            load_model(path)
    elif (key, value) in (("isocapsnet", "1"), ("isocapsnet", "x")):
        load_model(path)  # a version, for all we know
    else:
        assert_refused(path)
    assert_refused(write(tmp_path / "model", {k: v for k, v in content.items() if k != key}, arrays))


@pytest.mark.parametrize("key", ["parameters", "values", "classes", "n_nodes"])
def test_deep_content_is_refused(saved, key, tmp_path):
    content, arrays = saved["linear"]
    for depth in (100, *range(900, 1000, 3), 100_000):
        text = json.dumps(content | {key: "here"}).replace('"here"', "[" * depth + "]" * depth)
        try:
            digest = _persistence._digest(json.loads(text), arrays)
        except RecursionError:
            digest = "none"
        save_file(arrays, tmp_path / "model", {"isocapsnet": text, "sha256": digest})
        assert_refused(tmp_path / "model")


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F8_E5M2", "I16"])
def test_types_that_numpy_lacks_are_refused(saved, dtype, tmp_path):
    content, _ = saved["linear"]
    size = 2 if dtype in ("BF16", "I16") else 1
    header = {"__metadata__": {"isocapsnet": json.dumps(content), "sha256": "none"}}
    header["coef"] = {"dtype": dtype, "shape": [4], "data_offsets": [0, 4 * size]}
    text = json.dumps(header).encode()
    path = tmp_path / "model"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(4 * size))
    assert_refused(path)


@pytest.mark.parametrize("n_nodes", [11, 13, 10**5, 10**6, 10**7, 10**30])
@pytest.mark.parametrize("method", [name for name in MODELS if name != "constant"])
def test_a_number_of_nodes_that_no_array_backs_is_refused(saved, method, n_nodes, tmp_path):
    content, arrays = saved[method]
    # These have weights over patterns, pooled positions or clusters, which graphs of another size can have as well.
    blind = {"freq", "cnn", "capsnet", "diffpool", "dgcnn"}
    path = write(tmp_path / "model", content | {"n_nodes": n_nodes}, arrays)
    if method in blind and n_nodes < 14:
        with suppress(InputError):
            assert load_model(path).n_nodes_in_ == n_nodes
    elif method == "freq" and n_nodes <= 10**6:
        assert load_model(path).n_nodes_in_ == n_nodes  # its patterns lie within, and nothing grows with the nodes
    else:
        assert_refused(path)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("isocapsnet", {"kernel_size": 10**6}),
        ("isocapsnet", {"kernel_size": 11}),
        ("isocapsnet", {"matching": "spectral", "kernel_size": 10**6}),
        ("isocapsnet", {"decoder_sizes": [10**9]}),
        ("isocapsnet", {"decoder_sizes": [10**19]}),
        ("isocapsnet", {"residual_sizes": [1] * 10**6}),
        ("isocapsnet", {"n_templates": 10**9}),
        ("isocapsnet", {"capsule_size": 10**12}),
        ("isocapsnet", {"primary_size": 10**9}),
        ("isocapsnet", {"routing_iterations": 10**9}),
        ("isocapsnet", {"batch_size": 0}),
        ("isocapsnet", {"gamma": float("nan")}),
        ("isocapsnet", {"device": "meta"}),
        ("isocapsnet", {"device": 7}),
        ("isocapsnet-released", {"kernel_size": 10**6}),
        ("isocapsnet-released", {"decoder_sizes": [10**9, 10**9]}),
        ("isonn", {"n_layers": 10**9}),
        ("isonn", {"n_templates": 10**9, "n_layers": 3, "kernel_size": 2}),
        ("fastisonn", {"hidden_sizes": {"tuple": [10**9, 10**9]}}),
        ("capsnet", {"kernel_size": 10**6}),
        ("capsnet", {"n_primary": 10**9}),
        ("cnn", {"channels": [10**9, 10**9]}),
        ("sdbn", {"hidden_sizes": [10**9]}),
        ("dgcnn", {"n_layers": 10**9}),
        ("gcn", {"hidden_size": 10**9}),
        ("gcn", {"n_layers": 10**9}),
        ("gin", {"hidden_size": 10**12}),
        ("diffpool", {"n_pools": 10**9}),
        ("autoencoder", {"hidden_sizes": [10**9]}),
        ("wl", {"n_iterations": 10**9}),
        ("freq", {"max_edges": 10**9}),
        ("forest", {"n_trees": 10**9}),
        ("cpm", {"threshold": 2.0}),
        ("svm", {"kernel": "cosine"}),
        ("riemann", {"shrinkage": 0.0}),
        ("brainnetcnn", {"channels": [10**9]}),
        ("brainnetcnn", {"node_channels": 10**12}),
        ("bnt", {"n_layers": 10**9}),
        ("bnt", {"n_heads": 10**12}),
        ("bnt", {"n_clusters": 10**12}),
        ("linear", {"C": -1}),
        ("linear", {"C": "long " * 10**6}),
        ("linear", {"name " * 10**6: 1}),
    ],
    ids=lambda value: str(value)[:60],
)
def test_absurd_parameters_are_refused(saved, method, parameters, tmp_path):
    content, arrays = saved[method]
    assert_refused(write(tmp_path / "model", with_parameters(content, **parameters), arrays))


@pytest.mark.parametrize(
    "classes",
    [
        {"dtype": "<U1000000000", "labels": ["a", "b"]},
        {"dtype": "<U1", "labels": ["aa", "b"]},
        {"dtype": "<U1", "labels": ["b", "a"]},
        {"dtype": "<U1", "labels": ["a", "a"]},
        {"dtype": "<i8", "labels": [0]},
        {"dtype": "<i8", "labels": []},
        {"dtype": "<i8", "labels": [0, 1, 2]},
        {"dtype": "<i8", "labels": ["0", "1"]},
        {"dtype": "|i1", "labels": [0, 1000]},
        {"dtype": "<f8", "labels": [0.0, float("nan")]},
        {"dtype": "O", "labels": ["a", 1]},
        {"dtype": "O", "labels": [["a"], ["b"]]},
        {"dtype": "O", "labels": [None, "a"]},
        {"dtype": "V8", "labels": [0, 1]},
        {"dtype": "no type", "labels": [0, 1]},
        {"dtype": {}, "labels": [0, 1]},
        {"labels": [0, 1]},
    ],
    ids=str,
)
def test_classes_that_no_fit_could_have_made_are_refused(saved, classes, tmp_path):
    content, arrays = saved["linear"]
    assert_refused(write(tmp_path / "model", content | {"classes": classes}, arrays))


@pytest.mark.parametrize("method", NETWORKS)
@pytest.mark.parametrize(
    "change",
    [
        {"scaler": [True, 0.0]}, {"scaler": [True, float("nan")]}, {"scaler": [1, 1.0]}, {"scaler": [True]},
        {"temperature": float("nan")}, {"temperature": -1.0}, {"temperature": "1"}, {"history": [1]}, {"history": 3},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_network_learned_beside_its_weights_is_checked(saved, method, change, tmp_path):
    content, arrays = saved[method]
    values = dict(map(tuple, content["values"]["dict"])) | change
    assert_refused(write(tmp_path / "model", content | {"values": {"dict": list(map(list, values.items()))}}, arrays))


def test_what_other_methods_learned_is_checked(saved, tmp_path):
    content, arrays = saved["freq"]
    beyond = arrays | {"patterns": arrays["patterns"] + 12}
    assert_refused(write(tmp_path / "model", content, beyond), "12")
    content, arrays = saved["sdbn"]
    assert_refused(write(tmp_path / "model", content, arrays | {"order": arrays["order"] * 0}), "permutation")
    content, arrays = saved["wl"]
    none = arrays | {"graphs": arrays["graphs"][:0], "coef": arrays["coef"][:, :0]}
    assert_refused(write(tmp_path / "model", content, none), "no training graphs")
    for method in ("wl", "shortest-path"):
        content, arrays = saved[method]
        loops = np.unpackbits(arrays["graphs"], axis=-1)
        loops[0, 3, 3] = 1
        path = write(tmp_path / "model", content, arrays | {"graphs": np.packbits(loops, axis=-1)})
        assert_refused(path, "from a node to itself")
    for method in ("svm", "linear", "forest", "cpm"):
        content, arrays = saved[method]
        for scale in (0.0, -1.0):
            changed = arrays | {"scale": np.full_like(arrays["scale"], scale)}
            assert_refused(write(tmp_path / "model", content, changed))
    content, arrays = saved["svm"]
    rbf = with_parameters(content, kernel="rbf")
    none = arrays | {"vectors": np.zeros((0, len(arrays["mean"]))), "coef": np.zeros((2, 0))}
    assert_refused(write(tmp_path / "model", rbf, none), "no support vectors")
    content, arrays = saved["cpm"]
    assert_refused(write(tmp_path / "model", content, arrays | {"selected": arrays["selected"] + 2}), "networks")
    content, arrays = saved["riemann"]
    assert_refused(write(tmp_path / "model", content, arrays | {"means": -arrays["means"]}), "positive definite")
    content, arrays = saved["forest"]
    for name, change, fact in (
        ("features", arrays["features"] + 66, "66"),
        ("children", arrays["children"] * 0, "nowhere"),  # a path without end
        ("children", arrays["children"] + 10**9, "nowhere"),
        ("roots", arrays["roots"] - 1, "first node"),
        ("shares", arrays["shares"] * 2, "probabilities"),
    ):
        assert_refused(write(tmp_path / "model", content, arrays | {name: change}), fact)


def test_two_classes_are_all_that_the_released_variant_loads(saved, tmp_path):
    content, arrays = saved["isocapsnet-released"]
    three = content | {"classes": {"dtype": "<i8", "labels": [0, 1, 2]}}
    assert_refused(write(tmp_path / "model", three, arrays), "3 classes")


def test_a_file_with_the_former_formulation_loads_or_names_the_new_estimator(saved, tmp_path):
    content, arrays = saved["isocapsnet"]
    X, _ = make_data()
    expected = load_model(write(tmp_path / "new", content, arrays)).predict_proba(X)
    loaded = load_model(write(tmp_path / "old", with_parameters(content, formulation="paper"), arrays))
    assert_array_equal(loaded.predict_proba(X), expected)
    path = write(tmp_path / "old", with_parameters(content, formulation="released"), arrays)
    assert_refused(path, "ReleasedIsoCapsNetClassifier")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert_refused(tmp_path / "pipe", "not a file")


def mutate(content, arrays, rng):
    """One change somewhere in the content or the arrays."""
    places = [(content, key) for key in content]
    for parent, key in places:
        inner = parent[key]
        places += (
            [(inner, other) for other in (inner if isinstance(inner, dict) else range(len(inner)))]
            if isinstance(inner, dict | list)
            else []
        )
    parent, key = rng.choice(places)
    name = rng.choice(list(arrays))
    changes = [
        lambda: parent.__setitem__(key, copy.deepcopy(rng.choice([*ODD, {"tuple": 3}, {"dict": [[[], 1]]}, 10**9]))),
        lambda: parent.__delitem__(key),
        lambda: arrays.__delitem__(name),
        lambda: arrays.__setitem__(name, np.zeros((0, 10**7), arrays[name].dtype)),
        lambda: arrays.__setitem__(name, arrays[name].astype(rng.choice([np.int64, np.float16, np.uint8]))),
    ]
    rng.choice(changes[:1] * 4 + changes[1:])()


@pytest.mark.parametrize("method", MODELS)
def test_random_changes_are_refused_or_answered_with_probabilities(saved, method, tmp_path):
    rng, X = random.Random(method), make_data()[0]
    for _ in range(60):
        content, arrays = copy.deepcopy(saved[method])
        mutate(content, arrays, rng)
        path = write(tmp_path / "model", content, arrays)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = load_model(path)
                if model.n_nodes_in_ == X.shape[1]:
                    assert np.isfinite(model.predict_proba(X[:2])).all()
            except InputError:
                pass
