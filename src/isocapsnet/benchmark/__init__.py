"""Methods evaluated without leakage, resumably, on all cores or a cluster, and what their numbers show.

It is given estimators and a loader by import path; it knows neither models nor datasets.
"""

from isocapsnet.benchmark.executors import InProcessExecutor, dask_executor, local_executor
from isocapsnet.benchmark.jobs import Job, Method, Task, run_job
from isocapsnet.benchmark.plan import Plan
from isocapsnet.benchmark.preparation import Step
from isocapsnet.benchmark.protocol import PROTOCOLS, Protocol
from isocapsnet.benchmark.results import Table, tabulate
from isocapsnet.benchmark.runner import Outcome, run
from isocapsnet.benchmark.store import Store
from isocapsnet.benchmark.study import DataSource, Study
from isocapsnet.benchmark.worker import Limits

__all__ = [
    "PROTOCOLS",
    "DataSource",
    "InProcessExecutor",
    "Job",
    "Limits",
    "Method",
    "Outcome",
    "Plan",
    "Protocol",
    "Step",
    "Store",
    "Study",
    "Table",
    "Task",
    "dask_executor",
    "local_executor",
    "run",
    "run_job",
    "tabulate",
]
