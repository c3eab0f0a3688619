"""
A first benchmark
=================

Compare methods on the same folds. Each score has an interval, and each method has a verdict in words.
"""

import tempfile
from pathlib import Path

import numpy as np

import isocapsnet as ic

# %%
# With your own data, use ``study = ic.load_graphs("study/", target="diagnosis")``.
planted = ic.make_planted_graphs(n_graphs=90, n_nodes=16, signal_to_noise=2, random_state=0)
study = ic.BrainGraphs(planted.graphs, np.array(["control", "patient"])[planted.labels], name="example")
study

# %%
# Always include ``constant`` and ``linear``. A complex model is worth using only if it is better than both. Here we run
# one repeat without tuning, in this process, to be quick. The default is five repeats with tuning inside each training
# fold, on all cores.
out = Path(tempfile.mkdtemp()) / "results"
options = {"repeats": 1, "candidates": 1, "jobs": 0, "progress": False}
results = ic.benchmark(study, ["riemann", "linear", "constant"], out=out, **options)
results.table[["method", "roc_auc", "roc_auc_low", "roc_auc_high", "verdict"]]

# %%
# The figure of the report: means with 95 % intervals, single folds as dots, and the range of an uninformative method as
# a grey band.
results.plot.comparison()

# %%
# ``results.report("report.html")`` writes everything to one page. The results folder can be opened later.
for method, verdict in ic.open_results(out).verdicts.items():
    print(f"{method}: {verdict}")
