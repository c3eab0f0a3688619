"""Methods evaluated without leakage, resumably, on all cores or a cluster.

The package is given estimators and a loader of data by import path; it imports neither models nor datasets.
"""

from isocapsnet.evaluation.engine.execution import Execution
from isocapsnet.evaluation.engine.executors import InProcessExecutor, dask_executor, local_executor
from isocapsnet.evaluation.engine.runner import Outcome, run
from isocapsnet.evaluation.engine.worker import Limits
from isocapsnet.evaluation.jobs import Job
from isocapsnet.evaluation.metrics import METRICS, Metric
from isocapsnet.evaluation.plan import MethodSpec, Plan
from isocapsnet.evaluation.preparation import Step
from isocapsnet.evaluation.procedures import TESTS, Procedure
from isocapsnet.evaluation.protocol import PROTOCOLS, Protocol, Scheme
from isocapsnet.evaluation.results import ResultsTable, tabulate
from isocapsnet.evaluation.samples import DataSource, Samples
from isocapsnet.evaluation.store import Store

__all__ = [
    "METRICS",
    "PROTOCOLS",
    "TESTS",
    "DataSource",
    "Execution",
    "InProcessExecutor",
    "Job",
    "Limits",
    "MethodSpec",
    "Metric",
    "Outcome",
    "Plan",
    "Procedure",
    "Protocol",
    "ResultsTable",
    "Samples",
    "Scheme",
    "Step",
    "Store",
    "dask_executor",
    "local_executor",
    "run",
    "tabulate",
]
