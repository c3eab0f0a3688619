"""Executors: this process, local processes, or a Dask cluster."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from isocapsnet._packages import importing
from isocapsnet._validation import InputError
from isocapsnet.evaluation.engine.worker import Worker, own_worker


class InProcessExecutor(Executor):
    """Runs each call when it is submitted, in the caller's thread; a debugger can step into it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run ``fn`` with ``args`` and ``kwargs`` now, and return its result or exception as a finished future."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def count_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def local_executor(n_processes: int) -> Iterator[Executor]:
    """An executor of ``n_processes`` threads that each own one child process, in which the jobs run."""
    workers: list[Worker] = []
    executor = ThreadPoolExecutor(n_processes, initializer=lambda: workers.append(own_worker()))
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.retire()
        executor.shutdown(wait=True)


@contextmanager
def dask_executor(*, address: str | None = None, n_workers: int | None = None) -> Iterator[Executor]:
    """The Dask cluster whose scheduler listens at ``address``, or a new one of ``n_workers`` on this machine."""
    with importing("A cluster needs Dask", "cluster"):
        from distributed import Client, LocalCluster
    if address is None:
        cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None)
        with cluster, Client(cluster) as client:
            yield client.get_executor()
        return
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise InputError(f"No Dask scheduler answers at {address}; start one with `dask scheduler`.") from error
    with client:
        yield client.get_executor()
