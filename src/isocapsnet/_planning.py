"""From data, methods and options to the plan of a benchmark."""

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._controls import add_control, covariates_step
from isocapsnet._files import naming, set_aside
from isocapsnet._methods import Method, list_methods, list_steps, list_transforms
from isocapsnet._packages import check_packages
from isocapsnet._validation import InputError, check_number, check_option, iter_chunks
from isocapsnet.datasets.fields import is_missing
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import load_graphs
from isocapsnet.datasets.reading import ReadOptions, as_names
from isocapsnet.evaluation.engine.executors import InProcessExecutor, count_cores, dask_executor, local_executor
from isocapsnet.evaluation.plan import Plan, keep_suitable
from isocapsnet.evaluation.preparation import Step, check_installed, make_transformer
from isocapsnet.evaluation.procedures import TESTS
from isocapsnet.evaluation.protocol import Protocol
from isocapsnet.evaluation.samples import DataSource, Samples
from isocapsnet.evaluation.shares import read_shares

_LOWEST = {"repeats": 1, "folds": 2, "candidates": 1, "permutations": 0, "jobs": 0}
#: The dataset of a benchmark without data, and its repeats.
EMBEDDED, _EMBEDDED_REPEATS = "planted-motif", 2


@dataclass(frozen=True)
class Options:
    """The options of :func:`isocapsnet.benchmark`."""

    protocol: str
    out: str | Path
    repeats: int | None
    folds: int | None
    candidates: int | None
    search: str
    permutations: int
    test: str
    audit: str | None
    learning_curve: str | Sequence[float]
    connectivity: str | None
    transform: str | Sequence[str]
    choose_transform: str | Sequence[str]
    harmonize: bool
    confounds: str | Sequence[str]
    group: str | None
    use_unlabeled: bool
    save_models: bool
    explain: bool
    device: str | None
    jobs: int | None
    scheduler: str | None
    cluster: str | None
    timeout: float | None
    memory_limit: int | None
    retry_failed: bool
    dry_run: bool

    def __post_init__(self) -> None:
        plain = {name: value.item() for name, value in vars(self).items() if isinstance(value, np.number)}
        plain |= {"confounds": as_names(self.confounds or ()), "learning_curve": read_shares(self.learning_curve or ())}
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def executor(self) -> AbstractContextManager[Executor]:
        """Where jobs run."""
        if self.jobs == 0:
            return nullcontext(InProcessExecutor())
        n_slots = self.count_slots()
        if n_slots is None or self.cluster is not None:
            return dask_executor(address=self.scheduler, n_workers=n_slots)
        return local_executor(n_slots)

    def count_slots(self) -> int | None:
        """The jobs that run at the same time; None on a cluster of unknown size."""
        if self.scheduler is not None:
            return None
        if self.cluster is None:
            return count_cores() if self.jobs is None else max(1, self.jobs)  # 0: one at a time, here
        kind, _, number = self.cluster.partition(":")
        if kind != "local" or not number.isdecimal() or int(number) < 1:
            raise InputError(f"cluster={self.cluster} cannot be read; write local:N with the number of workers.")
        return int(number)

    def check(self) -> None:
        """Refuse options that exclude each other or cannot be read, before any work is done."""
        given = [f"{name}=" for name in ("jobs", "scheduler", "cluster") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} exclude each other; give one of them.")
        if self.scheduler is not None or self.cluster is not None:
            check_packages("A cluster", {"distributed": "cluster"})
        if self.audit is not None:
            check_option("audit", self.audit, ("node-order",))
        check_option("test", self.test, tuple(TESTS))
        for name, low in _LOWEST.items():
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=low, integer=True)
        limits = {name: getattr(self, name) for name in ("timeout", "memory_limit") if getattr(self, name) is not None}
        for name, value in limits.items():
            check_number(name, value, low=0, open_low=True)
            if self.jobs == 0:
                raise InputError(f"{name}= needs worker processes; use jobs=1 or more, or leave it out.")
        self.count_slots()


def open_data(data: Any, reading: Mapping[str, Any]) -> BrainGraphs:
    """A dataset, arrays ``(X, y)``, a path or the name of a dataset as one dataset."""
    check_keywords(reading)
    return load_graphs(data, **reading)


def check_keywords(reading: Mapping[str, Any], others: Sequence[str] = ()) -> None:
    """Refuse keywords that are neither options of reading nor among ``others``."""
    names = [*others, *(field.name for field in fields(ReadOptions))]
    if unknown := [name for name in reading if name not in names]:
        raise InputError(f"There is no option {unknown[0]!r}; choose from {', '.join(names)}.")


def adjacency_of(graphs: BrainGraphs) -> NDArray[np.floating[Any]]:
    """Graphs ``(n_graphs, n_nodes, n_nodes)``; time series become correlations, for which nothing is fitted."""
    if graphs.adjacency is not None:
        return graphs.adjacency
    from isocapsnet.datasets.connectivity import TimeSeriesConnectivity

    return TimeSeriesConnectivity().fit(graphs.time_series or ()).transform(graphs.time_series or ())


def open_with_covariates(data: Any, columns: Sequence[str], reading: Mapping[str, Any]) -> BrainGraphs:
    """The dataset, with the covariates that the analysis needs."""
    # A file has all its columns, and naming some would change its digest; columns of a table beside it must be named.
    has_table = (isinstance(data, str | Path) and Path(data).is_dir()) or reading.get("participants") is not None
    if has_table or reading.get("covariates"):
        needed = [*as_names(reading.get("covariates") or ()), *columns]
        reading = {**reading, "covariates": tuple(dict.fromkeys(needed)) or None}
    return open_data(data, reading)


def uses_series(data: BrainGraphs, connectivity: str | None) -> bool:
    """Whether graphs are made of time series."""
    return data.time_series is not None and (data.adjacency is None or connectivity is not None)


def make_plan(
    data: BrainGraphs,
    methods: str | Sequence[Method],
    options: Options,
    *,
    is_embedded: bool = False,
    covariates: Sequence[str] = (),
) -> Plan:
    """The plan of a benchmark. Unless it is a dry run, the data are saved in the results folder.

    ``covariates`` are the columns that the user named when the data were read.
    """
    specs = list_methods(methods, device=options.device, use_unlabeled=options.use_unlabeled)
    runs_here = options.scheduler is None  # workers elsewhere may have packages that this machine lacks
    n_classes = int((data.class_counts > 0).sum())
    specs = keep_suitable(specs, n_classes, named=methods != "all", runs_here=runs_here)
    use_series = uses_series(data, options.connectivity)
    steps = list_steps(
        connectivity=options.connectivity,
        transform=options.transform,
        harmonize=options.harmonize,
        confounds=options.confounds,
        has_series=use_series,
    )
    samples = Samples(data, options.group, use_series)
    protocol = Protocol(
        options.protocol,
        Protocol.n_folds if options.folds is None else options.folds,
        n_candidates=Protocol.n_candidates if options.candidates is None else options.candidates,
        search=options.search,
    )
    _check_data(samples, protocol, steps, options)
    choices = _list_choices(samples, steps, options)
    if runs_here:
        check_installed((*steps, *choices.values()))
    named = (*covariates, *options.confounds)
    control = covariates_step(data, protocol, named=named, group=options.group)
    default_repeats = min(protocol.scheme.n_repeats, _EMBEDDED_REPEATS) if is_embedded else protocol.scheme.n_repeats
    source = DataSource("", samples.digest, group=options.group, use_series=use_series)
    source.keep(samples)
    plan = Plan(
        source=source,
        methods=add_control(specs, control),
        protocol=protocol,
        repeats=default_repeats if options.repeats is None else options.repeats,
        preparation=steps,
        transforms=choices,
        covariates=control,
        permutations=options.permutations,
        test=options.test,
        audits=0 if options.audit is None else 1,
        shares=read_shares(options.learning_curve),
        save_model="isocapsnet._pipelines:save_fold_model" if options.save_models else None,
        explain="isocapsnet.explanation:write_explanation" if options.explain else None,
    )
    return plan if options.dry_run else replace(plan, source=publish(samples, Path(options.out)))


def _list_choices(samples: Samples, steps: Sequence[Step], options: Options) -> dict[str, Step]:
    """The transforms among which searches choose. Those that cannot be applied to the data are refused."""
    choices = list_transforms(options.choose_transform)
    for name, step in choices.items():
        transformer = make_transformer(step)
        if step.name == "tangent" and samples.is_time_series:
            raise InputError('choose_transform=tangent takes matrices; for time series use connectivity="tangent".')
        try:
            transformer._check_parameters()
            for _, some in iter_chunks(samples.X) if not steps else ():  # earlier steps change the graphs in each fold
                transformer._check_graphs(some)
        except InputError as reason:
            raise InputError(f"choose_transform={name} does not apply to these data. {reason}") from reason
    return choices


def publish(samples: Samples, folder: Path) -> DataSource:
    """Save the data under ``folder``, where workers map them into memory; this process keeps using the data in memory.

    A copy that exists is read and compared with the data; if it differs, also in identifiers, it is written again.
    """
    data = samples.data
    path = (folder / "data" / f"{data.digest().removeprefix('sha256:')[:16]}.npz").absolute()
    identifiers = None  # of a copy with the same content
    with suppress(Exception):  # a damaged archive can fail in any way
        if path.is_file() and (saved := BrainGraphs.load(path)).digest() == data.digest():
            identifiers = saved.identifiers.tolist()
    if identifiers != data.identifiers.tolist():
        if path.exists() and identifiers is None:
            warnings.warn(f"{path} is damaged or was changed; it is written again from the data.", stacklevel=2)
        if path.is_dir():
            set_aside(path, folder / "rejected" / "data")
        with naming(path):
            data.save(path)
    source = DataSource(
        loader="isocapsnet.datasets.graphs:BrainGraphs.load",
        digest=samples.digest,
        arguments={"path": str(path)},
        file=str(path),
        group=samples.group,
        use_series=samples.use_series,
    )
    source.keep(samples)
    return source


def _check_data(samples: Samples, protocol: Protocol, steps: Sequence[Step], options: Options) -> None:
    """Refuse options that need what the data do not have, and options that would be ignored."""
    fixed = protocol.scheme.fixed_by(samples)
    if options.folds is not None and fixed is not None:
        raise InputError(
            f"folds={options.folds} does not apply: {protocol.name} uses the dataset's {fixed}; leave it out."
        )
    if (options.candidates or 1) > 1 and not protocol.scheme.is_tuned:
        raise InputError(
            f"candidates={options.candidates} does not apply: {protocol.name} keeps each method's defaults; use "
            'protocol="nested".'
        )
    if options.search != Protocol.search and not protocol.is_tuned:
        raise InputError(f"search={options.search} does not apply: this run has no inner search; leave it out.")
    if options.use_unlabeled and not len(samples.unlabelled):
        raise InputError("use_unlabeled=True does not apply: every graph has a label; leave it out.")
    check_steps(samples, steps)
    if samples.sites is not None and protocol.scheme.keeps_sites:
        _refuse_missing("of sites", samples.sites, samples)
    if samples.group is not None:
        _refuse_missing(repr(samples.group), samples.subjects, samples)


def check_steps(samples: Samples, steps: Sequence[Step]) -> None:
    """Refuse steps of a preparation that need sites or covariates which the data do not have."""
    if any(step.name == "harmonize" for step in steps):
        if samples.sites is None:
            raise InputError("harmonize=True needs sites; name their column with site=.")
        _refuse_missing("of sites", samples.sites, samples)
    columns = [] if samples.covariates is None else list(samples.covariates.columns)
    for column in (column for step in steps for column in step.columns):
        if column not in columns:
            raise InputError(
                f"There is no covariate {column!r} to regress out; the data have {', '.join(columns) or 'none'}."
            )


def _refuse_missing(column: str, values: NDArray[Any], samples: Samples) -> None:
    """Refuse labelled graphs without a value: all of them would be of one person or one site with an empty name."""
    missing = [index for index in samples.labelled if is_missing(values[index])]
    if missing:
        raise InputError(
            f"{len(missing)} labelled graphs have no value in the column {column} (first: "
            f"{samples.data.identifiers[missing[0]]}); fill the gaps, or leave these graphs out with exclude=."
        )
