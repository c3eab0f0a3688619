"""Executors: this process, local processes, or a Dask cluster."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from isocapsnet._packages import importing
from isocapsnet._validation import InputError
from isocapsnet.evaluation.engine.worker import Worker, own_worker
from isocapsnet.evaluation.jobs import Job


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


class Apart(NamedTuple):
    """Methods, by their labels, whose jobs run in processes of their own, and the number of these processes."""

    methods: frozenset[str]
    n_processes: int


class _Pool(ThreadPoolExecutor):
    """Threads that each own one child process, in which jobs run; those of some methods run in another pool."""

    def __init__(self, n_processes: int, methods: frozenset[str] = frozenset(), other: "_Pool | None" = None) -> None:
        self.workers: list[Worker] = []
        self.methods, self.other = methods, other
        super().__init__(n_processes, initializer=lambda: self.workers.append(own_worker()))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run ``fn(task, ...)`` in a thread of this pool or of the other one."""
        if self.other is not None and Job(**args[0]["job"]).label in self.methods:
            return self.other.submit(fn, *args, **kwargs)
        return super().submit(fn, *args, **kwargs)

    def close(self) -> None:
        """Cancel what waits, and end the processes."""
        self.shutdown(wait=False, cancel_futures=True)
        for worker in self.workers:
            worker.retire()
        self.shutdown(wait=True)


@contextmanager
def local_executor(n_processes: int, apart: Apart | None = None) -> Iterator[Executor]:
    """An executor of ``n_processes`` threads that each own one child process, in which the jobs run.

    ``apart`` names methods whose jobs run in other processes, and the number of these.
    """
    with ExitStack() as stack:
        other = None if apart is None else _Pool(apart.n_processes)
        pool = _Pool(n_processes, frozenset() if apart is None else apart.methods, other)
        for one in filter(None, (other, pool)):
            stack.callback(one.close)
        yield pool


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
