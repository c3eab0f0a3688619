"""One torch, BLAS and numba thread per job, so that results do not depend on where a job ran.

In a process that runs already, :func:`isocapsnet._threads.one_thread` does the same for the time of a job.
"""

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
