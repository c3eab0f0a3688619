"""Methods evaluated without leakage, resumably, on all cores or a cluster, and what their numbers show.

It is given estimators and a loader by import path; it knows neither models nor datasets.
"""

from isocapsnet.evaluation.engine.executors import InProcessExecutor, dask_executor, local_executor
from isocapsnet.evaluation.engine.runner import Outcome, run
from isocapsnet.evaluation.engine.worker import Limits
from isocapsnet.evaluation.jobs import Job, Method, Task, run_job
from isocapsnet.evaluation.plan import Plan
from isocapsnet.evaluation.preparation import Step
from isocapsnet.evaluation.protocol import PROTOCOLS, Protocol
from isocapsnet.evaluation.results import Table, tabulate
from isocapsnet.evaluation.store import Store
from isocapsnet.evaluation.study import DataSource, Study

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
