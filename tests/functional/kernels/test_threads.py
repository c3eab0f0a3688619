"""Threads change the time a kernel takes, never its result; kernels survive threads and forks."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from isocapsnet._threads import limit_to_one_thread, one_thread
from isocapsnet.functional import dense_routing, isomorphic_match
from isocapsnet.functional.kernels import _threads, import_kernel
from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.nn import IsoCapsNet

pytestmark = pytest.mark.skipif(import_kernel("cpu") is None, reason="numba is not installed")


@pytest.fixture
def set_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def share_always(monkeypatch):
    """Whatever the work, and whether or not sharing it gains time here."""
    monkeypatch.setattr(_threads, "_WORTH_SHARING", 0)
    monkeypatch.setattr(_threads, "_pause", _threads._Pause())
    monkeypatch.setattr(_threads._Pause, "over", lambda self: True)


def match_and_gradients(graphs, templates):
    graphs, templates = graphs.clone().requires_grad_(), templates.clone().requires_grad_()
    match = isomorphic_match(graphs, templates)
    match.distance.square().sum().backward()
    return match.distance.detach(), match.permutation, graphs.grad, templates.grad


def test_results_do_not_depend_on_the_number_of_threads(set_threads, monkeypatch):
    share_always(monkeypatch)
    graphs, templates = torch.randn(7, 31, 31), torch.randn(2, 4, 4)
    results = []
    for n_threads in (1, 2, 3):
        set_threads(n_threads)
        results.append(match_and_gradients(graphs, templates))
    for other in results[1:]:
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(other, results[0], strict=True))


def test_results_of_large_templates_do_not_depend_on_the_number_of_threads_either(set_threads, monkeypatch):
    """Windows of the spectral match and parts of projected capsules are shared out, too."""
    share_always(monkeypatch)
    monkeypatch.setattr(dense_routing, "_PART_BYTES", 3000)
    graphs = torch.randn(5, 17, 17)
    graphs = graphs + graphs.mT
    results = []
    for n_threads in (1, 2, 3):
        set_threads(n_threads)
        torch.manual_seed(0)
        module = IsoCapsNet(17, 2, n_templates=2, kernel_size=12, matching="spectral", primary_size=16, residual=False)
        output = module(graphs)
        output.capsules.square().sum().backward()
        results.append([output.capsules.detach(), *(x.grad for x in module.parameters() if x.grad is not None)])
    assert len(results[0]) == 4
    for other in results[1:]:
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(other, results[0], strict=True))


def test_a_shared_task_that_shares_its_own_work_does_so_on_its_own_thread(set_threads, monkeypatch):
    share_always(monkeypatch)
    set_threads(2)
    inner: list[tuple[int, int, int]] = []

    def outer_task(start: int, stop: int) -> None:
        own = threading.get_ident()
        for _ in range(start, stop):
            parallel_ranges(lambda *part: inner.append((own, threading.get_ident(), *part)), 50)

    parallel_ranges(outer_task, 8)
    assert [entry[:2] == (entry[0], entry[0]) and entry[2:] == (0, 50) for entry in inner] == [True] * 8
    ranges: list[tuple[int, int]] = []
    parallel_ranges(lambda *part: ranges.append(part), 50)  # afterwards, work is shared out again
    assert len(ranges) > 1


def test_two_python_threads_may_call_at_once(set_threads, monkeypatch):
    share_always(monkeypatch)
    set_threads(2)
    inputs = [(torch.randn(4, 20, 20), torch.randn(1, 5, 5)) for _ in range(16)]
    expected = [match_and_gradients(*x) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: match_and_gradients(*x), inputs))
    for mine, theirs in zip(found, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("worth_sharing", [0, 60])
@pytest.mark.parametrize(("n_threads", "n"), [(1, 5), (2, 1), (2, 5), (3, 100), (4, 0)])
def test_ranges_cover_everything_once(set_threads, monkeypatch, n_threads, n, worth_sharing):
    share_always(monkeypatch)
    monkeypatch.setattr(_threads, "_WORTH_SHARING", worth_sharing)
    set_threads(n_threads)
    seen = []
    parallel_ranges(lambda start, stop: seen.extend(range(start, stop)), n)
    assert sorted(seen) == list(range(n))


def test_short_work_wakes_no_other_thread(set_threads, monkeypatch):
    set_threads(4)
    monkeypatch.setattr(_threads, "_WORTH_SHARING", 60)
    names = set()
    parallel_ranges(lambda start, stop: names.add(threading.current_thread().name), 100)
    assert names == {threading.current_thread().name}


def test_calls_work_alone_for_longer_and_longer_while_sharing_gains_nothing():
    pause, shared = _threads._Pause(), []
    for call in range(2000):
        if pause.over():
            shared.append(call)
            pause.note(seconds=1.0, alone=1.0)
    assert shared[:5] == [0, 2, 5, 10, 19]
    assert len(shared) < 20
    while not pause.over():
        pass
    pause.note(seconds=0.5, alone=1.0)
    assert [pause.over() for _ in range(1)] == [True]


def test_kernels_keep_their_threads_where_small_steps_have_one(set_threads, monkeypatch):
    set_threads(2)
    share_always(monkeypatch)
    both, names = threading.Barrier(2, timeout=20), set()

    def meet(start, stop):
        if start == 0:
            return
        if len(names) < 2:
            both.wait()  # two threads are here at once, or the barrier breaks
        names.add(threading.current_thread().name)

    with one_thread():
        parallel_ranges(meet, 3)
    assert len(names) == 2


def test_an_error_in_a_helper_thread_is_raised(set_threads, monkeypatch):
    set_threads(2)
    share_always(monkeypatch)
    failed = threading.Event()

    def fail(start, stop):
        if threading.current_thread() is not threading.main_thread():
            failed.set()
            raise ZeroDivisionError
        if start > 0:
            assert failed.wait(20)  # leave something to the helper

    with pytest.raises(ZeroDivisionError):
        parallel_ranges(fail, 10)


def test_an_error_ends_the_work_of_all_threads(set_threads, monkeypatch):
    set_threads(2)
    share_always(monkeypatch)
    helping, failed, done, wait = threading.Event(), threading.Event(), [], _threads.wait

    def wait_for(helpers):  # the thread that failed does this next
        failed.set()
        return wait(helpers)

    def work(start, stop):
        if threading.current_thread() is not threading.main_thread():
            helping.set()
            assert failed.wait(20)
            done.append(start)
        elif start > 0:
            assert helping.wait(20)
            raise KeyboardInterrupt

    monkeypatch.setattr(_threads, "wait", wait_for)
    with pytest.raises(KeyboardInterrupt):
        parallel_ranges(work, 1000)
    assert len(done) == 1  # of 16 ranges


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_can_use_the_kernel(set_threads, monkeypatch):
    share_always(monkeypatch)
    set_threads(2)
    parallel_ranges(lambda start, stop: None, 10)  # the pool now has threads, which the child will not have
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that waits for threads it does not have must not wait for ever
        seen = []
        parallel_ranges(lambda start, stop: seen.extend(range(start, stop)), 10)
        os._exit(0 if sorted(seen) == list(range(10)) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_steps_of_torch_in_a_thread_of_the_pool_use_one_thread(set_threads):
    set_threads(3)
    with ThreadPoolExecutor(1, initializer=limit_to_one_thread) as pool:
        assert pool.submit(torch.get_num_threads).result() == 1
    assert torch.get_num_threads() == 3
