"""One torch, BLAS and numba thread per job, so that results do not depend on where a job ran."""

import os
import sys
from functools import lru_cache

from threadpoolctl import threadpool_limits

#: What a child process is started with: the libraries read these when they are imported.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)


@lru_cache
def limit_this_process(loaded: str) -> None:
    """The same for a process that already runs, for good: libraries it has loaded, and those still to come.

    Done once for each ``loaded``, which names what was imported before.
    """
    # Once numba runs it refuses a changed environment, so a loaded numba is asked directly.
    numba, torch = sys.modules.get("numba"), sys.modules.get("torch")
    os.environ.update({name: one for name, one in ONE_THREAD.items() if numba is None or "NUMBA" not in name})
    threadpool_limits(limits=1)
    if torch is not None:
        torch.set_num_threads(1)
    if numba is not None:
        numba.set_num_threads(1)
