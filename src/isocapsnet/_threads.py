"""On how many threads work runs: small steps on one, which is faster, and the fused kernels on more where they gain.

A step on a few hundred thousand numbers takes less time than waking another thread, and many times longer than that
when the other thread waits for a core that something else keeps busy.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

# Held by the thread of the program that limits BLAS.
_LIMITS_BLAS = threading.Lock()
# What the fused kernels may use inside one_thread; None outside of it.
_KERNEL_THREADS: ContextVar[int | None] = ContextVar("isocapsnet_kernel_threads", default=None)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch, OpenMP and BLAS use one thread inside; afterwards all is as it was. Also a decorator.

    The fused kernels may go on using as many as torch was allowed before (:func:`kernel_threads`). OpenMP keeps its
    number for each thread of the program, and this changes that of the calling one alone. BLAS has one for the whole
    program: of several threads that are in here, the first limits it until it leaves. What ``torch.set_num_threads``
    has explicitly asked of MKL stays.
    """
    if _KERNEL_THREADS.get() is not None:  # inside already
        yield
        return
    token = _KERNEL_THREADS.set(_torch_threads())
    with ExitStack() as stack:
        stack.callback(_KERNEL_THREADS.reset, token)
        stack.enter_context(_pools("openmp", len(sys.modules)).limit(limits=1))
        if _LIMITS_BLAS.acquire(blocking=False):
            stack.callback(_LIMITS_BLAS.release)
            stack.enter_context(_pools("blas", len(sys.modules)).limit(limits=1))
        yield


def kernel_threads() -> int:
    """On how many threads a fused kernel may run: as many as torch's own, which :func:`one_thread` does not change."""
    allowed = _KERNEL_THREADS.get()
    return _torch_threads() if allowed is None else allowed


def _torch_threads() -> int:
    torch = sys.modules.get("torch")
    return 1 if torch is None else int(torch.get_num_threads())


@lru_cache(maxsize=2)
def _pools(user_api: str, n_modules: int) -> Any:
    """The thread pools of one kind; sought anew, which takes milliseconds, when modules were imported since."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api=user_api)
