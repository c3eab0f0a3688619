"""Small steps run on one thread, and the program around them keeps the threads that it had."""

import os
import subprocess
import sys

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from isocapsnet._threads import kernel_threads, one_thread


def threads():
    """The number of threads of every pool that is loaded, by the file of its library."""
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}


@pytest.fixture
def two_threads():
    torch.get_num_threads()  # the first call of a thread sets its number
    with threadpool_limits(2):
        assert torch.get_num_threads() == 2
        yield threads()


def test_inside_there_is_one_thread_and_afterwards_what_was_there(two_threads):
    with one_thread():
        assert set(threads().values()) == {1}
        assert torch.get_num_threads() == 1
        assert kernel_threads() == 2
    assert threads() == two_threads
    assert kernel_threads() == 2


def test_an_exception_restores_the_threads_too(two_threads):
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert threads() == two_threads
    assert kernel_threads() == 2


def test_scopes_nest(two_threads):
    with one_thread():
        with one_thread():
            assert kernel_threads() == 2
        assert set(threads().values()) == {1}
    assert threads() == two_threads


OVERLAP = """
import threading
import numpy, torch
from threadpoolctl import threadpool_info
from isocapsnet._threads import one_thread

def threads():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}

def other():
    torch.get_num_threads()
    entered.wait(60)
    with one_thread():
        met.set()
        left.wait(60)  # the first one leaves meanwhile
        seen.append(torch.get_num_threads())
    seen.append(torch.get_num_threads())

torch.get_num_threads()
before, seen = threads(), []
assert set(before.values()) == {2}, before
entered, met, left = (threading.Event() for _ in range(3))
helper = threading.Thread(target=other)
helper.start()
with one_thread():
    assert set(threads().values()) == {1}
    entered.set()
    assert met.wait(60)
left.set()
helper.join()
assert seen == [1, 2], seen
assert threads() == before, threads()
"""


def test_scopes_of_two_python_threads_that_overlap_leave_nothing_behind():
    two = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    subprocess.run([sys.executable, "-c", OVERLAP], env={**os.environ, **two}, check=True, timeout=120)


@one_thread()
def threads_inside():
    return torch.get_num_threads()


def test_the_scope_is_a_decorator_too(two_threads):
    assert [threads_inside(), threads_inside()] == [1, 1]
    assert torch.get_num_threads() == 2
