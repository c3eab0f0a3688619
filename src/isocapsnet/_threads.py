"""Number of threads: one for small steps, which is faster, and more for the fused kernels where they gain.

A step on a few hundred thousand numbers takes less time than the start of another thread. It takes many times longer if
that thread has to wait for a busy core.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

# Held by the thread that limits BLAS.
_LIMITS_BLAS = threading.Lock()
# Threads of the fused kernels inside one_thread; None outside.
_KERNEL_THREADS: ContextVar[int | None] = ContextVar("isocapsnet_kernel_threads", default=None)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch, OpenMP and BLAS to one thread inside, and restore the limits afterwards. Also a decorator.

    The fused kernels may still use as many threads as torch could before (:func:`kernel_threads`). OpenMP has a limit
    per thread of the program, and only that of the calling thread changes. BLAS has one limit for the whole program:
    if several threads enter, the first sets the limit until it leaves. What ``torch.set_num_threads`` has explicitly
    set in MKL stays.
    """
    if _KERNEL_THREADS.get() is not None:  # nested
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


def limit_to_one_thread() -> None:
    """Limit OpenMP, and so torch's own steps, to one thread in the calling thread of the program, for good."""
    _torch_threads()  # torch sets the limit of a thread when it is first used there; later it leaves it as it is
    _pools("openmp", len(sys.modules)).limit(limits=1)


def kernel_threads() -> int:
    """Threads that a fused kernel may use: as many as torch may, also inside :func:`one_thread`."""
    allowed = _KERNEL_THREADS.get()
    return _torch_threads() if allowed is None else allowed


def _torch_threads() -> int:
    torch = sys.modules.get("torch")
    return 1 if torch is None else int(torch.get_num_threads())


@lru_cache(maxsize=2)
def _pools(user_api: str, n_modules: int) -> Any:
    """The thread pools of one kind. The search takes milliseconds and is repeated after modules were imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api=user_api)
