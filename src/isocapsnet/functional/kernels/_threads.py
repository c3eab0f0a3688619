"""Run compiled code that releases the interpreter lock on as many threads as torch uses.

Numba's own thread pools are either absent (TBB), unsafe after a fork (OpenMP) or abort when two Python threads enter
them at once (workqueue). A plain thread pool is none of these, compiles faster and follows ``torch.set_num_threads``.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import count

import torch

# Ranges per thread: enough to even out a busy core, few enough that handing them out costs nothing.
_RANGES_PER_THREAD = 8


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="isocapsnet")


# A forked child inherits the pool without its threads and would wait for them for ever.
os.register_at_fork(after_in_child=_pool.cache_clear)


def parallel_ranges(task: Callable[[int, int], None], n: int) -> None:
    """Call ``task(start, stop)`` on ranges that cover ``range(n)``, on ``torch.get_num_threads()`` threads.

    Ranges are handed out as threads become free, so the result of a task must not depend on how they are cut.
    """
    n_threads = min(torch.get_num_threads(), n)
    if n_threads <= 1:
        task(0, n)
        return
    n_ranges = min(n, n_threads * _RANGES_PER_THREAD)
    numbers = count()

    def work() -> None:
        while (i := next(numbers)) < n_ranges:
            task(n * i // n_ranges, n * (i + 1) // n_ranges)

    helpers = [_pool().submit(work) for _ in range(n_threads - 1)]
    work()
    for helper in helpers:
        helper.result()
