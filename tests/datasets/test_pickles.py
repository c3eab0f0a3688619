"""A pickle that would run code, import a module or build an unknown class is refused, and nothing of it runs."""

import io
import os
import pickle
import pickletools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from isocapsnet._validation import InputError
from isocapsnet.datasets.formats import pickles
from isocapsnet.datasets.formats.pickles import load_pickle
from isocapsnet.datasets.readers import load_graphs

MARKER = "MARKER"  # replaced by a path in the test; its existence shows that something ran


class Calls:
    """Pickles as a call of a function with arguments."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


class Unknown:
    def __init__(self):
        self.value = 1


class Armed(dict):
    pass


def protocol_0(text: str) -> bytes:
    return text.encode()


def short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def stack_global(module: str, name: str) -> bytes:
    return short(module) + short(name) + b"\x93"


def numpy_dtype(code: str, state: tuple) -> bytes:
    """Opcodes that build numpy.dtype(code) with a chosen state."""
    content = pickle.dumps(state, protocol=4)
    body = content[content.index(b"\x95") + 9 : -1] if b"\x95" in content else content[2:-1]
    return stack_global("numpy", "dtype") + short(code) + b"\x89\x88\x87R" + body.replace(b"\x94", b"") + b"b"


def touch(marker: str) -> str:
    return f"touch {marker}"


# Each takes the path of the marker and returns the bytes of a pickle.
ATTACKS = {
    "os.system": lambda m: pickle.dumps(Calls(os.system, touch(m))),
    "posix.system by opcode": lambda m: protocol_0(f"cposix\nsystem\n(V{touch(m)}\ntR."),
    "subprocess.Popen": lambda m: protocol_0(f"csubprocess\nPopen\n((lVtouch\naV{m}\natR."),
    "builtins.eval": lambda m: pickle.dumps(Calls(eval, f"open({m!r}, 'w')")),
    "builtins.exec": lambda m: pickle.dumps(Calls(exec, f"open({m!r}, 'w').close()")),
    "builtins.open": lambda m: pickle.dumps(Calls(open, m, "w")),
    "builtins.__import__": lambda m: pickle.dumps(Calls(__import__, "antigravity")),
    "builtins.getattr": lambda m: protocol_0(f"cbuiltins\ngetattr\n(cos\nsystem\nV__call__\ntR(V{touch(m)}\ntR."),
    "importlib": lambda m: protocol_0("cimportlib\nimport_module\n(Vantigravity\ntR."),
    "only importing": lambda m: protocol_0("cantigravity\nfly_geohash\n."),
    "pickle in pickle": lambda m: pickle.dumps(Calls(pickle.loads, pickle.dumps(Calls(os.system, touch(m))))),
    "numpy.load": lambda m: protocol_0(f"cnumpy\nload\n(V{m}\ntR."),
    "numpy by a path": lambda m: b"\x80\x04" + stack_global("numpy", "lib.os.system") + short(touch(m)) + b"\x85R.",
    "ndarray.tofile": lambda m: b"\x80\x04" + stack_global("numpy", "ndarray.tofile") + short(m) + b"\x85R.",
    "codecs with another codec": lambda m: protocol_0("c_codecs\nencode\n(Vabc\nVzlib\ntR."),
    "codecs.open": lambda m: protocol_0(f"ccodecs\nopen\n(V{m}\nVw\ntR."),
    "INST opcode": lambda m: protocol_0(f"(V{touch(m)}\nios\nsystem\n."),
    "OBJ opcode": lambda m: protocol_0(f"(cos\nsystem\nV{touch(m)}\no."),
    "NEWOBJ of an unknown class": lambda m: pickle.dumps(Unknown()),
    "dict subclass": lambda m: pickle.dumps(Armed(a=1)),
    "persistent id": lambda m: protocol_0("Psecret\n."),
    "extension registry": lambda m: b"\x80\x02\x82\x01.",
    "shutil.rmtree": lambda m: protocol_0(f"cshutil\nrmtree\n(V{m}x\ntR."),
    "functools.partial": lambda m: protocol_0(f"cfunctools\npartial\n(cos\nsystem\nV{touch(m)}\ntR(tR."),
    "changing a function": lambda m: b"\x80\x04" + stack_global("numpy", "ndarray") + b"N}" + short("k") + b"Ns\x86b.",
    "bytes of a size": lambda m: protocol_0("cbuiltins\nbytes\n(I999999999999\ntR."),
    "calling a result": lambda m: b"\x80\x04" + stack_global("numpy", "dtype") + short("f8") + b"\x85R)R.",
    "ndarray itself": lambda m: b"\x80\x04" + stack_global("numpy", "ndarray") + b".",
    "ndarray of any shape": lambda m: b"\x80\x04" + stack_global("numpy", "ndarray") + b"K\x05\x85\x85R.",
    "forged object pointers": lambda m: (
        b"\x80\x04"
        + stack_global("numpy._core.multiarray", "scalar")
        + numpy_dtype("O8", (3, "|", None, None, None, -1, -1, 63))
        + b"C\x08\xef\xbe\xad\xde\0\0\0\0\x86R."
    ),
    "dtype with hidden fields": lambda m: (
        b"\x80\x04"
        + stack_global("numpy._core.multiarray", "scalar")
        + numpy_dtype("V8", (3, "|", None, ("a",), {"a": ("O8", 0)}, 8, 1, 0))
        + b"C\x08\xef\xbe\xad\xde\0\0\0\0\x86R."
    ),
    "array larger than its content": lambda m: (
        b"\x80\x04"
        + stack_global("numpy._core.numeric", "_frombuffer")
        + b"(C\x08\0\0\0\0\0\0\0\0"
        + numpy_dtype("f8", (3, "<", None, None, None, -1, -1, 0))
        + b"J\xff\xff\xff\x7f\x85"
        + short("C")
        + b"tR."
    ),
    "a list that contains itself": lambda m: protocol_0("(lp0\ng0\na."),
    "memo of a huge index": lambda m: b"\x80\x04Nr\xff\xff\xff\x7f.",
    "truncated": lambda m: pickle.dumps({"train": np.zeros(50)})[:-20],
    "no pickle at all": lambda m: b"hello, world\n",
    "empty": lambda m: b"",
}


def test_there_are_at_least_20_attacks_and_most_work_against_plain_pickle(tmp_path):
    assert len(ATTACKS) >= 20
    marker = tmp_path / "marker"
    pickle.loads(ATTACKS["posix.system by opcode"](str(marker)))
    assert marker.exists()


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused_and_nothing_runs(tmp_path, name):
    marker = tmp_path / "marker"
    path = tmp_path / "fold_1"
    path.write_bytes(ATTACKS[name](str(marker)))
    modules = set(sys.modules)
    with pytest.raises(InputError, match="fold_1 is refused"):
        load_pickle(path)
    assert not marker.exists()
    assert "antigravity" not in set(sys.modules) - modules


@pytest.mark.parametrize("name", ["os.system", "NEWOBJ of an unknown class", "forged object pointers"])
def test_attack_inside_a_fold_is_refused(tmp_path, name):
    marker = tmp_path / "marker"
    payload = ATTACKS[name](str(marker))
    opcodes = [position for opcode, _, position in pickletools.genops(payload) if opcode.name in ("PROTO", "FRAME")]
    start = 11 if len(opcodes) == 2 else 2
    fold = b"\x80\x04}" + short("train") + payload[start:-1] + b"s."
    (tmp_path / "fold_1").write_bytes(fold)
    with pytest.raises(InputError, match="fold_1 is refused"):
        load_graphs(tmp_path)
    assert not marker.exists()


def test_exponential_structures_stay_small(tmp_path):
    nested = [0.0]
    for _ in range(60):
        nested = [nested, nested]
    (tmp_path / "p").write_bytes(pickle.dumps(nested))
    loaded = load_pickle(tmp_path / "p")
    assert loaded[0] is loaded[1]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(PLAIN, st.integers(0, 5))
def test_plain_containers_come_back(tmp_path_factory, content, protocol):
    path = tmp_path_factory.mktemp("p") / "p"
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    assert load_pickle(path) == content


ARRAYS = hnp.arrays(
    st.sampled_from(["<f8", ">f4", "<i8", "u1", "bool", "<U5", "S3", "f2"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@settings(max_examples=80, deadline=None)
@given(ARRAYS, st.integers(0, 5), st.booleans())
def test_numpy_arrays_come_back(tmp_path_factory, array, protocol, is_fortran):
    array = np.asfortranarray(array) if is_fortran else array
    path = tmp_path_factory.mktemp("p") / "p"
    path.write_bytes(pickle.dumps([array], protocol=protocol))
    (loaded,) = load_pickle(path)
    assert loaded.dtype == array.dtype
    assert loaded.shape == array.shape
    assert loaded.tobytes() == array.tobytes()


@pytest.mark.parametrize("protocol", range(6))
def test_numpy_scalars_and_object_arrays_of_plain_values(tmp_path, protocol):
    content = {"a": np.float32(1.5), "b": [np.int64(-1), np.bool_(True)], "c": np.array([1, None, "x"], dtype=object)}
    (tmp_path / "p").write_bytes(pickle.dumps(content, protocol=protocol))
    assert load_pickle(tmp_path / "p") == {"a": 1.5, "b": [-1, True], "c": [1, None, "x"]}


def test_pickles_of_numpy_1_are_read(tmp_path):
    content = pickle.dumps({"X": np.arange(6.0).reshape(2, 3), "y": np.int64(3)}, protocol=3)
    assert b"numpy._core" in content
    (tmp_path / "p").write_bytes(content.replace(b"numpy._core", b"numpy.core"))
    loaded = load_pickle(tmp_path / "p")
    assert np.array_equal(loaded["X"], np.arange(6.0).reshape(2, 3))
    assert loaded["y"] == 3


def older_fold(protocol=2):
    """The bytes of a fold as numpy 1.16 to 1.26 may write it: functions by the name of the module in C."""
    rng = np.random.default_rng(0)
    parts = {
        part: {"X": rng.normal(size=(4, 3, 3)), "y": [np.int64(-1), np.int64(1)] * 2} for part in ("train", "test")
    }
    content = pickle.dumps(parts, protocol=protocol)
    assert b"numpy._core.multiarray" in content
    return parts, content.replace(b"numpy._core.multiarray", b"numpy.core._multiarray_umath")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3])  # later ones write the lengths of names
def test_older_folds_that_name_the_module_in_c_are_read(tmp_path, protocol):
    parts, content = older_fold(protocol)
    (tmp_path / "fold_1").write_bytes(content)
    graphs = load_graphs(tmp_path)
    np.testing.assert_array_equal(graphs.adjacency[:4], parts["test"]["X"])
    assert graphs.labels[:4].tolist() == [0, 1, 0, 1] and list(graphs.label_names) == ["-1", "1"]


# Written out here, so that a name that is added to the reader must be added here, too.
LET_IN = {
    ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"), ("builtins", "bytes"), ("__builtin__", "bytes"),
    ("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core._multiarray_umath", "_reconstruct"), ("numpy._core._multiarray_umath", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"), ("numpy._core.multiarray", "scalar"),
    ("numpy.core._multiarray_umath", "scalar"), ("numpy._core._multiarray_umath", "scalar"),
    ("numpy.core.numeric", "_frombuffer"), ("numpy._core.numeric", "_frombuffer"),
}  # fmt: skip


def test_nothing_else_is_let_in_of_all_that_python_and_numpy_have_loaded():
    unpickler = pickles._InertUnpickler(io.BytesIO(b""))
    asked = set(LET_IN)
    for module, content in list(sys.modules.items()):
        if module.split(".")[0] in {
            "numpy",
            "builtins",
            "os",
            "posix",
            "sys",
            "subprocess",
            "_codecs",
            "codecs",
            "pickle",
        }:
            names = {*vars(content), "_reconstruct", "scalar", "_frombuffer", "ndarray", "dtype", "encode", "system"}
            asked |= {(module, name) for name in names}
            asked |= {(module.replace("_core", "core"), name) for name in names}
    let_in = set()
    for module, name in asked:
        try:
            unpickler.find_class(module, name)
            let_in.add((module, name))
        except pickle.UnpicklingError:
            pass
    assert len(asked) > 3000
    assert let_in == LET_IN


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_older_fold_is_refused_or_plain_data(tmp_path_factory, data):
    _, content = older_fold(data.draw(st.sampled_from([0, 2, 3])))
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position : position + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    path = tmp_path_factory.mktemp("p") / "p"
    path.write_bytes(bytes(damaged))
    modules = set(sys.modules)
    try:
        loaded = load_pickle(path)
    except InputError:
        return
    assert set(sys.modules) == modules
    waiting = [loaded]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            waiting += item
        elif isinstance(item, np.ndarray):
            assert not item.dtype.hasobject
        else:
            assert item is None or isinstance(item, bool | int | float | str | bytes | bytearray | np.generic)


@pytest.mark.parametrize(
    ("fold", "sentence"),
    [
        ({"train": {"X": [], "y": []}}, 'no part "test"'),
        ([1, 2], 'no part "train"'),
        ({p: {"X": [np.zeros((2, 2))], "y": [1, 2]} for p in ("train", "test")}, "1 graphs but 2 labels"),
        ({p: {"X": [np.zeros((2, 3))], "y": [1]} for p in ("train", "test")}, "must be square"),
        ({p: {"X": [np.array("text")], "y": [1]} for p in ("train", "test")}, "must be square"),
    ],
)
def test_pickles_that_are_no_folds_are_refused(tmp_path, fold, sentence):
    (tmp_path / "fold_1").write_bytes(pickle.dumps(fold))
    with pytest.raises(InputError, match=sentence):
        load_graphs(tmp_path)
    with pytest.raises(InputError, match=sentence):
        load_graphs(tmp_path / "fold_1")
