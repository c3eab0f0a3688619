"""Parsers that misbehave, for the tests of the process that runs parsers."""

import os
import signal

import numpy as np


def crash(path, limit):
    os.kill(os.getpid(), signal.SIGSEGV)


def spin(path, limit):
    while True:
        pass


def allocate(path, limit):
    return {"large": np.ones(2 << 30, dtype=np.uint8)}, {}


def fail(path, limit):
    raise KeyError("unexpected")


def leave(path, limit):
    os._exit(3)


def chatter(path, limit):
    print("a library that prints")
    os.write(1, b"and one that writes\n")
    return {"values": np.arange(3), "none": np.zeros((0, 4)), "names": np.array(["ä", "bc"])}, {"fact": [1, "two"]}
