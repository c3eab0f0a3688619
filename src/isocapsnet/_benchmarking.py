"""Benchmarks from Python: :func:`benchmark` and :func:`sweep`."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from isocapsnet._controls import describe_control
from isocapsnet._files import write_whole
from isocapsnet._methods import Method, list_one_method, make_method, parse_value, split_values
from isocapsnet._planning import EMBEDDED, Options, check_keywords, make_plan, open_with_covariates
from isocapsnet._progress import escape, make_console, show_progress
from isocapsnet._results import Results, describe_call
from isocapsnet._run_files import RUN_FILE, write_config
from isocapsnet._safe_text import spreadsheet_safe
from isocapsnet._timing import choose_jobs, describe_jobs, estimate_time
from isocapsnet._validation import InputError
from isocapsnet.datasets.reading import as_names
from isocapsnet.evaluation.engine.execution import Execution
from isocapsnet.evaluation.engine.runner import Outcome
from isocapsnet.evaluation.engine.worker import Limits
from isocapsnet.evaluation.output import read_context, write_results
from isocapsnet.evaluation.plan import Plan
from isocapsnet.evaluation.power import sentences_about_power
from isocapsnet.evaluation.procedures import DEFAULT_TEST
from isocapsnet.evaluation.protocol import Protocol


def benchmark(
    data: Any = None,
    methods: str | Sequence[Method] = ("isocapsnet", "linear", "constant"),
    *,
    protocol: str = "nested",
    out: str | Path = "isocapsnet-results",
    repeats: int | None = None,
    folds: int | None = None,
    candidates: int | None = None,
    search: str = Protocol.search,
    permutations: int = 0,
    test: str = DEFAULT_TEST,
    audit: str | None = None,
    learning_curve: str | Sequence[float] = (),
    connectivity: str | None = None,
    transform: str | Sequence[str] = (),
    choose_transform: str | Sequence[str] = (),
    harmonize: bool = False,
    confounds: str | Sequence[str] = (),
    group: str | None = None,
    use_unlabeled: bool = False,
    save_models: bool = False,
    explain: bool = True,
    device: str | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    cluster: str | None = None,
    timeout: float | None = None,
    memory_limit: int | None = None,
    retry_failed: bool = True,
    dry_run: bool = False,
    progress: bool | Callable[[Outcome], None] = True,
    command: str | None = None,
    **reading: Any,
) -> Results:
    """Compare methods on a dataset without leakage.

    Results are stored job by job. If a run is interrupted, the same call continues it.

    Parameters
    ----------
    data : BrainGraphs, path, str or tuple (X, y), optional
        A dataset; a file, folder or name that :func:`isocapsnet.load_graphs` reads; or graphs
        ``(n_graphs, n_nodes, n_nodes)`` with labels ``(n_graphs,)``. By default the embedded dataset "planted-motif".
    methods : sequence, or "all"
        Names of methods, with parameters in brackets (``"isocapsnet[kernel_size=3]"``), classes or estimators. Any
        scikit-learn classifier with ``predict_proba`` that fits graphs ``(n_graphs, n_nodes, n_nodes)`` can be given,
        also one that is defined in a script or a notebook; ``(name, estimator)`` gives it a name. Its source and its
        parameters decide whether stored results are reused; if the source cannot be read, they are not. The estimator
        is sent to the worker processes over a pipe and never written to a file. ``confound-only``, a linear model on
        age, sex, motion and other covariates, is added beside ``linear`` and ``constant`` if the data have covariates.
    protocol : str
        "nested": repeated stratified cross-validation with tuning inside each training fold. "paper": the dataset's own
        folds and each method's defaults. "leave-site-out": each site is the test set once.
    out : path
        The results folder.
    repeats : int, optional
        Repeats of the cross-validation (nested: 5, else 1).
    folds : int, optional
        Folds, if the data do not define them (3).
    candidates : int, optional
        Settings that the inner search tries (8); 1 for no search.
    search : {"halving", "exhaustive"}
        "halving" tries all settings in the first inner fold and about the better half of them in each further fold,
        with the defaults. "exhaustive" tries all settings in all inner folds.
    permutations : int
        Number of label permutations.
    test : {"corrected-z", "resampled-t"}
        How intervals and p-values are computed. "corrected-z" takes the variance of each fold's score from its test
        subjects; "resampled-t" estimates it from the folds, as many papers do, and needs more of them.
    audit : {"node-order"}, optional
        Run again with shuffled nodes.
    learning_curve : sequence of float
        Run again on these shares of the training subjects of each fold, such as ``[0.25, 0.5, 0.75]``.
    connectivity : str, optional
        Graphs from time series: correlation (default), tangent, ...
    transform : str or sequence of str
        Transforms inside each fold, in this order.
    choose_transform : str or sequence of str
        Transforms of which the search of each method may choose one, such as ``"fisher-z,tangent"``. It comes last.
    harmonize : bool
        Remove site effects with ComBat, fitted in each fold.
    confounds : str or sequence of str
        Covariates to regress out in each fold.
    group : str, optional
        The covariate that says which graphs are of one person.
    use_unlabeled : bool
        Give unlabelled graphs to the methods that can use them.
    save_models : bool
        Save the models of the first repeat, each with the preparation of its fold.
    explain : bool
        Explain networks on their test graphs.
    device : str, optional
        The device of the methods that have one: cpu, cuda, ...
    jobs : int, optional
        Worker processes; 0 runs jobs in this process. By default one per core. If a method trains on a GPU, one per
        4 GiB of its memory, but at most 4.
    scheduler : str, optional
        Address of a Dask scheduler to run on.
    cluster : str, optional
        "local:N" starts a Dask cluster of N workers on this machine.
    timeout, memory_limit : float, int, optional
        Seconds and bytes that a job may use.
    retry_failed : bool
        Run jobs again that failed before.
    dry_run : bool
        Count the jobs and estimate the time of each method from short trials on these data; write nothing. The
        results are those of finished jobs, and ``results.context["estimated_time"]`` has the times.
    progress : bool or callable
        Show progress in the terminal or notebook, or call a function with each finished job.
    command : str, optional
        What ``results.json`` records as the command. By default the call.
    **reading
        How to read a path: the keywords of :func:`isocapsnet.load_graphs`, such as ``target="diagnosis"``.

    Returns
    -------
    results : Results
        Tables, verdicts, figures and the report.

    Examples
    --------
    >>> import isocapsnet
    >>> study = isocapsnet.load_graphs("study/", target="diagnosis")
    >>> results = isocapsnet.benchmark(study, ["isocapsnet", "linear", "constant"], out="results")
    >>> results.table
    >>> results.report("report.html")
    """
    given = dict(locals())
    options = Options(**{field.name: given[field.name] for field in fields(Options)})
    check_keywords(reading, ("methods", *vars(options)))
    command = command or describe_call("benchmark", data, {"methods": methods, **vars(options), **reading})
    console = make_console(quiet=progress is not True)
    options.check()
    columns = [*options.confounds, *filter(None, [options.group])]
    graphs = open_with_covariates(EMBEDDED if data is None else data, columns, reading)
    console.print(escape(str(graphs)), highlight=False)
    named = as_names(reading.get("covariates") or ())
    plan = make_plan(graphs, methods, options, is_embedded=data is None, covariates=named)
    if plan.sites is not None:
        console.print(escape(plan.sites.sentence), soft_wrap=True)
    about_power = sentences_about_power(plan.detectable)
    for sentence in filter(None, [describe_control(plan), *about_power, plan.too_few_permutations()]):
        console.print(escape(sentence), soft_wrap=True)
    options = choose_jobs(options, plan)
    folder = Path(options.out)
    execution = Execution(plan, folder, retry_failed=options.retry_failed)
    console.print(describe_jobs(execution, options))
    on_stderr = make_console(quiet=console.quiet, stderr=True)
    estimate = estimate_time(execution, plan, options, on_stderr) if options.dry_run else None
    if estimate is not None:
        console.print(estimate.table(), *map(escape, estimate.sentences(options.count_slots())), sep="\n")
    if options.dry_run:
        for sentence in execution.store.describe_rejected():
            console.print(escape(f"{sentence} The job runs again."), soft_wrap=True)
    else:
        asked = {"data": data, "methods": methods, **vars(options), "jobs": jobs, **reading}
        write_config(folder / RUN_FILE, "benchmark", asked)
    if execution.waiting and not options.dry_run:
        labels = [task.job.label for task in execution.waiting]
        known, n_slots = execution.mean_seconds(), options.count_slots() or 1
        with options.executor() as executor, show_progress(on_stderr, labels, known, n_slots) as shown:
            limits = Limits(options.timeout, options.memory_limit)
            on_outcome = progress if callable(progress) else shown.on_outcome
            execution.run(executor, limits=limits, on_outcome=on_outcome, on_stage=shown.on_stage)
    summary = execution.table()
    context = _describe_plan(plan) | {"passport": graphs.passport, "command": command, "versions": summary.versions}
    if estimate is not None:
        context["estimated_time"] = estimate.to_json()
    earlier = read_context(folder)[0].get("method_versions", {})
    context["method_versions"] = earlier | {method.label: method.version for method in plan.methods}
    if not options.dry_run:
        write_results(folder, summary, context)
    return Results(summary, context, [folder], graphs)


def sweep(
    data: Any = None,
    method: str = "isocapsnet",
    param: str | Mapping[str, Iterable[Any]] = "",
    **options: Any,
) -> Results:
    """Vary one parameter of a method.

    Parameters
    ----------
    data : BrainGraphs, path, str or tuple (X, y), optional
        See :func:`benchmark`.
    method : str
        The name of a method, which may have parameters in brackets.
    param : mapping or str
        The parameter and its values: ``{"kernel_size": [1, 2, 3]}`` or ``"kernel_size=1,2,3"``.
    **options
        See :func:`benchmark`.

    Returns
    -------
    results : Results
        One row per value. The table ``results.sweep``, which is also written to ``sweep.csv``, has the value, metrics,
        seconds and the learned template of the first fold.

    Examples
    --------
    >>> import isocapsnet
    >>> results = isocapsnet.sweep("study.npz", param={"kernel_size": [1, 2, 3]})
    >>> results.sweep[["kernel_size", "roc_auc"]]
    """
    name, values = _read_param(param)
    base = list_one_method(method)
    runtime: dict[str, Any] = {key: options.get(key) for key in ("device", "use_unlabeled") if options.get(key)}
    methods = [make_method(base.name, {**base.parameters, name: value}, **runtime) for value in values]
    options.setdefault("command", describe_call("sweep", data, {"method": method, "param": param, **options}))
    results = benchmark(data, methods, **options)
    values_by_label = {spec.label: spec.parameters[name] for spec in methods}
    results.context["sweep"] = {"method": base.name, "parameter": name, "methods": values_by_label}
    if not options.get("dry_run"):
        text = param if isinstance(param, str) else f"{name}={','.join(map(str, values))}"
        write_config(results.folders[0] / RUN_FILE, "sweep", {"data": data, "method": method, "param": text, **options})
        write_results(results.folders[0], results.summary, results.context)
        assert results.sweep is not None
        frame = results.sweep.assign(template=results.sweep["template"].map(json.dumps))
        write_whole(results.folders[0] / "sweep.csv", spreadsheet_safe(frame).to_csv(index=False).encode())
    return results


def _describe_plan(plan: Plan) -> dict[str, Any]:
    """What ``results.json`` says about the plan."""
    protocol = plan.protocol
    file = {} if plan.source.file is None else {"file": f"data/{Path(plan.source.file).name}"}
    return {
        "protocol": {
            "name": protocol.name,
            "n_folds": protocol.n_folds,
            "repeats": plan.repeats,
            "inner_folds": protocol.inner_folds if protocol.is_tuned else 0,
            "n_candidates": protocol.n_candidates if protocol.is_tuned else 1,
            **({"search": protocol.search} if protocol.is_tuned else {}),
            "permutations": plan.permutations,
        },
        "preparation": [step.identity() for step in plan.preparation],
        "search_spaces": {method.label: method.space for method in plan.methods if protocol.is_tuned},
        "data": {"digest": plan.source.digest, **file},
        "confounds": describe_control(plan) or "",
        "detectable": plan.detectable,
    }


def _read_param(param: str | Mapping[str, Iterable[Any]]) -> tuple[str, list[Any]]:
    """The parameter of a sweep and its values."""
    if isinstance(param, Mapping) and len(param) == 1:
        [(name, values)] = param.items()
        several = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
        if not several:
            raise InputError(f"param: {name} has no values; give at least one.")
        return name, [value.item() if isinstance(value, np.generic) else value for value in several]
    name, equals, text = str(param).partition("=")
    if not isinstance(param, str) or not equals or not text:
        raise InputError(f"param={param} cannot be read; write NAME=VALUE,VALUE,...")
    return name, [parse_value(value) for value in split_values(text)]
