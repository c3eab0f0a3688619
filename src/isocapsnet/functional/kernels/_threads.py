"""Run compiled code that releases the interpreter lock on several threads, if that is faster.

Numba's own thread pools are either absent (TBB), unsafe after a fork (OpenMP) or abort when two Python threads enter
them at once (workqueue). A plain thread pool is none of these, compiles faster and follows ``torch.set_num_threads``.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import count

from isocapsnet._threads import kernel_threads, limit_to_one_thread

# Ranges per thread: enough to balance a busy core, few enough that distributing them takes no time.
_RANGES_PER_THREAD = 8
# Seconds of work from which on other threads are used. To wake one takes a twentieth of that.
_WORTH_SHARING = 0.002
# Several threads are faster if they take less than this share of the time of one thread.
_GAIN = 0.8
# After a call in which several threads were not faster, this many calls use one thread. The number doubles each time.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1, 256

# The processor time of a thread does not include waiting. Where its resolution is low (Windows), wall time is used.
_work_clock = time.thread_time if time.get_clock_info("thread_time").resolution < 1e-4 else time.perf_counter


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="isocapsnet", initializer=_begin_helper)


def _begin_helper() -> None:
    """All that a thread of the pool does is a shared task."""
    _inside.a_task = True
    limit_to_one_thread()


# A forked child inherits the pool without its threads and would wait for them forever.
os.register_at_fork(after_in_child=_pool.cache_clear)


class _Pause:
    """How many calls use one thread before several are tried again, because the cores may be busy for a while."""

    def __init__(self) -> None:
        self.left, self.length = 0, _SHORTEST_PAUSE

    def over(self) -> bool:
        self.left -= 1
        return self.left < 0

    def note(self, seconds: float, alone: float) -> None:
        """Record that several threads took ``seconds`` for what would have taken one thread ``alone`` seconds."""
        gained = seconds < _GAIN * alone
        self.left, self.length = (0, _SHORTEST_PAUSE) if gained else (self.length, min(2 * self.length, _LONGEST_PAUSE))


_pause = _Pause()
_inside = threading.local()  # whether this thread shares work out already


def parallel_ranges(task: Callable[[int, int], None], n: int) -> None:
    """Call ``task(start, stop)`` on ranges that cover ``range(n)``, on up to ``kernel_threads()`` threads.

    Other threads are used if the time of the first range shows that the rest takes long enough, and if they were
    faster in recent calls. A free thread takes the next range, so the result must not depend on how ranges are cut. A
    task that calls this function itself does so on its own thread.
    """
    if getattr(_inside, "a_task", False):
        task(0, n)
        return
    _inside.a_task = True
    try:
        _share(task, n)
    finally:
        _inside.a_task = False


def _share(task: Callable[[int, int], None], n: int) -> None:
    n_threads = min(kernel_threads(), n)
    if n_threads <= 1:
        task(0, n)
        return
    n_ranges = min(n, n_threads * _RANGES_PER_THREAD)
    began, worked = time.perf_counter(), _work_clock()
    task(0, n // n_ranges)
    alone = (_work_clock() - worked) * n_ranges
    if alone < _WORTH_SHARING or not _pause.over():
        task(n // n_ranges, n)
        return
    numbers, stopped = count(1), threading.Event()

    def work() -> None:
        try:
            while not stopped.is_set() and (i := next(numbers)) < n_ranges:
                task(n * i // n_ranges, n * (i + 1) // n_ranges)
        except BaseException:
            stopped.set()
            raise

    helpers = [_pool().submit(work) for _ in range(n_threads - 1)]
    try:
        work()
    finally:
        wait(helpers)  # they write to the same tensors
    for helper in helpers:
        helper.result()
    _pause.note(time.perf_counter() - began, alone)
