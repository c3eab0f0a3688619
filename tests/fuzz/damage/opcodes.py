"""Damage to pickles: opcodes moved, lost and added, structures that explode, and calls that must never run.

Whatever would run leaves a file called ``canary`` in the working directory, where the driver finds it.
"""

import os
import pickle
import pickletools
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.damage.plain import damage_bytes
from tests.fuzz.damage.trees import damage_tree

_COMMAND = b"touch canary"


class _Call:
    """Pickles as a call."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


def _shared_lists(depth: int, kind: bytes = b"]") -> bytes:
    """Lists of a thousand references to the list before: small as a file, large when it is copied."""
    body = b"\x80\x02" + kind + b"q\0"
    for number in range(1, depth):
        body += b"](" + b"h" + bytes([number - 1])
        body += (b"h" + bytes([number - 1])) * 60 + b"eq" + bytes([number])
    return body + b"."


def _fold(part: bytes) -> bytes:
    """A fold whose training graphs are what the opcodes make."""
    y = b"](K\0K\x01e"
    return b"\x80\x02}(X\x05\0\0\0train}(X\x01\0\0\0X" + part + b"X\x01\0\0\0y" + y + b"uX\x04\0\0\0test}u."


def _array(shape: bytes, code: bytes = b"f8", content: bytes = b"B\x08\0\0\0" + bytes(8)) -> bytes:
    """numpy's way to an array, with a shape and a type of one's own."""
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\0tC\x01btR"
    kind = b"cnumpy\ndtype\n(X" + struct.pack("<I", len(code)) + code + b"K\0K\x01tR"
    kind += b"(K\x03X\x01\0\0\0<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    return made + b"(K\x01" + shape + kind + b"\x89" + content + b"tb"


_SNIPPETS: tuple[bytes, ...] = (
    b"\x80\x02]r" + struct.pack("<I", 250_000_000) + b".",
    b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b".",
    b"\x80\x02}(K\x01K\x02\x86" + b"2\x86" * 40 + b"K\x01u.",
    b"\x80\x02K\x01K\x02\x86" + b"2\x86" * 200 + b".",
    b"\x80\x02}(X\x05\0\0\0trainK\x01K\x02\x86" + b"2\x86" * 60 + b"u.",
    b"\x80\x02]q\0h\0a.",
    b"\x80\x02]q\0(h\0h\0h\0e.",
    b"\x80\x02}q\0X\x05\0\0\0trainh\0s.",
    _shared_lists(8),
    _shared_lists(30),
    b"\x80\x02" + b"(" * 100_000 + b".",
    b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".",
    b"\x80\x02" + b"N\x85" + b"\x85" * 100_000 + b".",
    b"\x80\x04B" + struct.pack("<I", 2**31) + b".",
    b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b".",
    b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b".",
    b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.",
    b"\x80\x05\x96" + struct.pack("<Q", 2**34) + b".",
    b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b".",
    b"\x80\x02\x8b" + struct.pack("<i", -5) + b".",
    b"L" + b"9" * 100_000 + b"L\n.",
    b"I" + b"9" * 5000 + b"\n.",
    b"F1e999\n.",
    b"S'\\x'\n.",
    b"V\\ud800\n.",
    b"\x80\x02P1\n.",
    b"\x80\x02Q.",
    b"\x82\x01.",
    b"\x80\x05\x97\x98.",
    b"\x80\xff.",
    b"cos\nsystem\n(V" + _COMMAND + b"\ntR.",
    b"cposix\nsystem\n(S'" + _COMMAND + b"'\ntR.",
    b"(V" + _COMMAND + b"\nios\nsystem\n.",
    b"(cos\nsystem\nV" + _COMMAND + b"\no.",
    b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0c" + _COMMAND + b"\x85R.",
    b"\x80\x04\x8c\x05numpy\x8c\x0dlib.os.system\x93\x8c\x0c" + _COMMAND + b"\x85R.",
    b"cbuiltins\neval\n(V__import__('os').system('" + _COMMAND + b"')\ntR.",
    b"c__builtin__\nexec\n(Vopen('canary', 'w')\ntR.",
    b"cbuiltins\ngetattr\n(cos\nsystem\nV__call__\ntR(V" + _COMMAND + b"\ntR.",
    b"\x80\x02cnumpy\nload\n(X\x06\0\0\0canarytR.",
    b"\x80\x02c_codecs\nencode\n(X\x02\0\0\0abX\x04\0\0\0zliptR.",
    _fold(b"](" + _array(b"J\xff\xff\xff\x7f\x85") + _array(b"K\x02K\x02\x86") + b"e"),
    _fold(b"](" + _array(b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85") + b"K\x01e"),
    _fold(b"](" + _array(b"K\x01K\x01\x86", b"O8", b"](NNe") + b"K\x01e"),
    _fold(b"](" + _array(b"K\x01\x85", b"U999999", b"B\0\0\0\0") + b"K\x01e"),
    _fold(b"](" + _array(b"K\x01K\x01\x86") * 2 + b"e"),
    _fold(b"]q\0(h\0h\0e"),
    _fold(b"K\x01K\x02\x86" + b"2\x86" * 30),
)

Calls = (_Call(os.system, _COMMAND.decode()), _Call(eval, "open('canary', 'w')"), _Call(open, "canary", "w"))


def _operations(content: bytes) -> list[bytes]:
    """The opcodes of a pickle with their arguments."""
    starts = [place or 0 for _, _, place in pickletools.genops(content)]
    return [content[start:stop] for start, stop in zip(starts, [*starts[1:], len(content)], strict=True)]


def _shuffle_opcodes(content: bytes, rng: Random) -> bytes:
    operations = _operations(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        if not operations:
            break
        i, j = rng.randrange(len(operations)), rng.randrange(len(operations))
        action = rng.randrange(5)
        if action == 0:
            del operations[i]
        elif action == 1:
            operations.insert(j, operations[i])
        elif action == 2:
            operations[i], operations[j] = operations[j], operations[i]
        elif action == 3:
            operations[i] = damage_bytes(operations[i], rng)
        else:
            operations.insert(
                i,
                rng.choice(
                    (b"2", b"0", b"1", b"(", b"t", b"]", b"}", b"a", b"s", b"u", b"R", b"b", b"\x86", b"q\0", b"h\0")
                ),
            )
    return b"".join(operations)


def _splice(content: bytes, rng: Random) -> bytes:
    """A hostile snippet alone, or in the place of one opcode."""
    snippet = rng.choice(_SNIPPETS)
    operations = _operations(content)
    if rng.random() < 0.6:
        return snippet
    start = 2 if snippet[:1] == b"\x80" else 0
    operations[rng.randrange(len(operations))] = snippet[start:-1]
    return b"".join(operations)


def _repickle(content: bytes, rng: Random) -> bytes:
    """Other values in the same structure: wrong types, lost parts, other arrays, shared parts, calls."""
    tree = pickle.loads(content)
    is_array = isinstance(tree, np.ndarray)  # of one object, or of a list of them, as numpy writes it
    if is_array:
        tree = tree.item() if tree.ndim == 0 else {"list": list(tree)}
    if rng.random() < 0.6:
        tree = damage_tree(tree, rng)
    else:
        part = tree if is_array else tree[rng.choice(("train", "test"))]
        key = rng.choice([key for key, value in part.items() if np.ndim(value[0]) == 2] if is_array else ["X"])
        part[key] = _other_graphs(part[key], rng)
    if is_array:
        value = tree.get("list", tree) if isinstance(tree, dict) else tree
        tree = np.empty(() if rng.random() < 0.8 else (1,), dtype=object)
        tree.fill(value)  # as one object, also if it is a list or an array
    return pickle.dumps(tree, protocol=rng.randrange(6))


def _other_graphs(graphs: Any, rng: Random) -> Any:
    arrays = (np.array(graphs), np.ma.array(graphs)) if len({graph.shape for graph in graphs}) == 1 else ()
    return rng.choice(
        (
            *arrays,
            [graphs],
            np.array([*graphs, None], dtype=object),
            [graph.tolist() for graph in graphs],
            [graph[:2] for graph in graphs],
            [graph.astype(rng.choice(("U4", "c16", "f2", ">i2", "M8[s]", "?"))) for graph in graphs],
            [np.full_like(graph, rng.choice((np.nan, np.inf, 1e308))) for graph in graphs],
            [rng.choice(Calls), *graphs],
            [{graph.shape: graph} for graph in graphs],
            {1, 2},
            range(10**9),
        )
    )


def damage_pickle(content: bytes, rng: Random) -> bytes:
    """A pickle that is nearly a fold."""
    action = rng.random()
    if action < 0.45:
        return _shuffle_opcodes(content, rng)
    if action < 0.65:
        return _splice(content, rng)
    return _repickle(content, rng)
