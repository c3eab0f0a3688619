"""How long a job will take, from trials on its own data that are cut short.

A trial does what the job does, with three shortcuts. Each training stops after a few epochs, and the epochs that are
left out are taken to be as long. A search stops when the time of the trial is over, and the fits that are left out are
taken to be as long as those before. If a trial with all training graphs would still take too long, it has fewer. The
time is then taken to grow as it did between the last two trials: by a power of their number, or, if it grew less than
in proportion, along a line. A network computes some things once for each graph of an epoch and others once for each
batch. Two trials of one batch each lie on a line that leaves out further batches, and time in proportion to the graphs
counts those steps for each graph, so the geometric mean of both is taken.

How many fits a search needs and which setting it chooses is known only after a search with all graphs and all epochs.
Otherwise it is taken to choose the defaults, and each setting to be the best one with the same probability. It needs
the fewest fits if the defaults are the best, and otherwise the most.

Time to compile kernels does not count: they are kept on disk, so they are compiled once on a machine.

A training that may end before its last epoch (early stopping) is the hard part. Such trainings run to their end while
there is time, and the others are taken to need the same share of their epochs. If no end was seen, they are taken to
need :data:`USUAL_SHARE` of them.
"""

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._stages import Watcher, watching
from isocapsnet.evaluation.estimation import Fitter
from isocapsnet.evaluation.jobs import Fold, Task, find_fold, fit_and_predict, make_fitter, write_explanation
from isocapsnet.evaluation.protocol import inner_folds
from isocapsnet.evaluation.search import count_fits

#: The stages of a job.
STAGES = ("search", "fit", "predict", "explain")
#: The share of its epochs that a training with early stopping is taken to need if no end was seen. Iso-CapsNet needed
#: between 0.3 (ABIDE-NYU) and 1 (planted motifs) of them, so this is wrong by a factor below two.
USUAL_SHARE = 0.55
# Training graphs of each class in the first trial; the second has half of them if all graphs would take too long.
_FIRST_PER_CLASS = 12
# Epochs after the first are measured for at least this long, or this many of them. A single one is enough only if it is
# so long that other work on the machine does not matter.
_EPOCH_SECONDS, _MOST_EPOCHS, _LONG_EPOCH = 0.05, 10, 0.25
# If the first epoch takes longer than the others by this many seconds, and by more than one of them, it compiled a
# kernel, for a GPU perhaps.
_COMPILING = 1.0
# With m times as many graphs a trial is taken to last at most m to this power times as long.
_CAUTION = 1.3
# The time of a fit without epochs is taken to grow with a power of the number of graphs between these. The lower one is
# for noise. No method needs more than a kernel matrix.
_LOWEST_POWER, _HIGHEST_POWER = 0.5, 2.0


@dataclass
class _Training:
    history: Sequence[Mapping[str, Any]]
    max_epochs: int
    may_stop: bool
    is_cut: bool = False

    @property
    def epoch_seconds(self) -> float:
        """The median duration of an epoch, the lower one of two: a first epoch or other work makes some longer."""
        return float(median_low(epoch["dur"] for epoch in self.history))

    @property
    def compiling_seconds(self) -> float:
        """What the first epoch took to compile kernels."""
        excess = float(self.history[0]["dur"]) - self.epoch_seconds
        return excess if excess > max(_COMPILING, self.epoch_seconds) else 0.0


class _EnoughError(Exception):
    """The search of a trial ends here."""


class _Trial(Watcher):
    """Cuts searches and trainings, and adds up what each stage would take without the cuts.

    Parameters
    ----------
    seconds : float
        A search ends before its first fit after this time; there is at least one. Trainings with early stopping are not
        cut before they have taken this long together.
    compiled : callable
        The seconds of compiling until now.
    """

    def __init__(self, seconds: float, compiled: Callable[[], float] = lambda: 0.0) -> None:
        self._search_seconds = self._watched_seconds = seconds
        self._began = self._entered = time.perf_counter()
        self._compiled, self._compiled_before = compiled, 0.0
        self._stage = "search"
        self._trainings: list[_Training] = []
        # Shares of their epochs that trainings with early stopping have needed.
        self._shares: list[float] = []
        #: The seconds of each stage.
        self.seconds = dict.fromkeys(STAGES, 0.0)
        #: Whether a number of epochs is an assumption.
        self.is_assumed = False
        self._n_fits = 0  # of the search
        #: Whether the search trained with fewer epochs than it would.
        self.is_search_cut = False
        #: Whether a fit took epochs.
        self.has_epochs = False
        #: The seconds that the trial took, and the share of a core that it got.
        self.spent, self.core = 0.0, 1.0

    def on_stage(self, stage: str, number: int, total: int) -> None:
        self.end_stage()
        self._stage = stage
        if stage == "search":
            if number > 1 and time.perf_counter() - self._began > self._search_seconds:
                raise _EnoughError
            self._n_fits = number

    def on_epoch(self, history: Sequence[Mapping[str, Any]], max_epochs: int, *, may_stop: bool) -> bool:
        self.has_epochs |= self._stage == "fit"
        if not self._trainings or self._trainings[-1].history is not history:
            self._trainings.append(_Training(history, max_epochs, may_stop))
        training = self._trainings[-1]
        measured = (len(history) - 1) * training.epoch_seconds
        is_enough = measured > _EPOCH_SECONDS or len(history) >= _MOST_EPOCHS
        is_enough &= len(history) > (1 if training.epoch_seconds > _LONG_EPOCH else 2)
        if may_stop:
            self._watched_seconds -= history[-1]["dur"]
            is_enough &= self._watched_seconds <= 0
        training.is_cut = is_enough and len(history) < max_epochs
        self.is_search_cut |= training.is_cut and self._stage == "search"
        return training.is_cut

    def end_stage(self) -> None:
        """Add the time since the last stage has ended, less compilation, and that of the epochs that were left out."""
        now, compiled = time.perf_counter(), self._compiled()
        in_epochs = sum(training.compiling_seconds for training in self._trainings)
        spent = max(0.0, now - self._entered - max(compiled - self._compiled_before, in_epochs))
        self._shares += [len(t.history) / t.max_epochs for t in self._trainings if t.may_stop and not t.is_cut]
        self.seconds[self._stage] += spent + sum(map(self._left_out, self._trainings))
        self._entered, self._compiled_before, self._trainings = now, compiled, []

    def complete_search(self, n_fits: float) -> None:
        """Scale a search that was cut, or had few graphs, to ``n_fits`` fits.

        If it had none, because there were too few people for inner folds, each is taken to be as long as the last fit.
        """
        each = self.seconds["search"] / self._n_fits if self._n_fits else self.seconds["fit"]
        self.seconds["search"] = each * n_fits

    def predict(self, growth: float) -> float:
        """The seconds of a trial with ``growth`` times as many training graphs, at most."""
        fixed = min(self.spent, self.seconds["predict"] + self.seconds["explain"])
        return fixed + (self.spent - fixed) * growth**_CAUTION

    def _left_out(self, training: _Training) -> float:
        """The seconds of the epochs of a training that were left out."""
        if not training.is_cut:
            return 0.0
        share = 1.0
        if training.may_stop:
            self.is_assumed |= not self._shares
            share = float(np.mean(self._shares or USUAL_SHARE))
        return max(0.0, share * training.max_epochs - len(training.history)) * training.epoch_seconds


def time_job(task: Task, seconds: float) -> dict[str, Any]:
    """Estimate the seconds of each stage of a job from trials that take about ``seconds`` in all.

    Returns JSON: ``seconds`` of each stage; ``n_train``, the training graphs of the last trial; ``is_assumed``, whether
    the number of epochs is an assumption; ``elapsed``, the seconds that this took; ``core``, the share of a core that
    this process got in the trials.
    """
    started, fold = time.perf_counter(), find_fold(task)
    order, n_all = _spread(fold.labels), len(fold.labels)
    rarest = np.unique(fold.labels, return_counts=True)[1].min() / n_all
    size = min(n_all, int(np.ceil(_FIRST_PER_CLASS / rarest)))
    sizes, trials = list[int](), list[_Trial]()

    def attempt(size: int, seconds: float) -> _Trial:
        with _count_compiling() as compiled:
            began, computed = time.perf_counter(), time.process_time()
            trial = _try(task, _take(fold, order[:size]), seconds / 2, compiled, is_whole=size == n_all)
            elapsed = time.perf_counter() - began
            trial.spent, trial.core = elapsed - compiled(), min(1.0, (time.process_time() - computed) / elapsed)
        sizes.append(size)
        trials.append(trial)
        return trial

    # This compiles and loads what is needed, also for other settings, which takes longer than the trial itself.
    trial = attempt(size, seconds)
    warm, computed = time.perf_counter(), time.process_time()
    deadline = warm + seconds
    if size < n_all and trial.predict(n_all / size) > seconds:
        size = min(size, int(np.ceil(_FIRST_PER_CLASS / 2 / rarest)))
        trial = attempt(size, 0.0)
    while sizes[-1] < n_all or len(sizes) < 2:
        left = deadline - time.perf_counter()
        if len(sizes) == 2:  # how the time grows is worth some more of it
            left = max(left, 2 * seconds)
        larger = [n for n in (n_all, 2 * size) if n <= n_all and trial.predict(n / size) < left]
        if not larger:
            break
        size = larger[0]
        trial = attempt(size, left)
    estimate = _extrapolate(sizes[1:] or sizes, trials[1:] or trials, n_all)
    if size < sizes[0]:  # fewer graphs may take longer: more patterns of a few are frequent
        first = _extrapolate(sizes[:1], trials[:1], n_all)
        if 2 * sum(first.values()) < sum(estimate.values()):
            estimate, size, trial = first, sizes[0], trials[0]
    return {
        "seconds": estimate,
        "n_train": size,
        "is_assumed": trial.is_assumed,
        "elapsed": time.perf_counter() - started,
        "core": min(1.0, (time.process_time() - computed) / (time.perf_counter() - warm)),
    }


@contextmanager
def _count_compiling() -> Iterator[Callable[[], float]]:
    """A function that returns the seconds that Numba has spent on compiling kernels in this block."""
    from numba.core.event import TimingListener, install_listener

    with install_listener("numba:compile", TimingListener()) as listener:
        yield lambda: float(listener.duration) if listener.done else 0.0


def _try(task: Task, fold: Fold, seconds: float, compiled: Callable[[], float], *, is_whole: bool) -> _Trial:
    """A job that is cut short. Unless its search had all graphs, fits and epochs, it fits the defaults."""
    job, samples, fitter = task.job, task.source.load(), make_fitter(task, fold)
    trial, preparation, settings = _Trial(seconds, compiled), fitter.preparation, None
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder, watching(trial):
        warnings.simplefilter("ignore")
        with suppress(_EnoughError):
            settings = fitter.search(job.space, fold.protocol, fold.train, fold.labels, fold.groups, job.seed)
        if is_part := settings is None or not is_whole or trial.is_search_cut:
            settings = {}
        fitter.preparation = preparation.settle(settings)
        outcome = fit_and_predict(fitter, settings, samples, fold)
        if task.artifacts is not None:
            write_explanation(Path(folder, "artifacts", "trial"), replace(task, save_model=None), fold, outcome)
        trial.end_stage()
        if is_part:
            trial.complete_search(_expected_fits(fitter, task, find_fold(task)))
    return trial


def _expected_fits(fitter: Fitter, task: Task, fold: Fold) -> float:
    """Those of the search of a job, if each candidate is the best one with the same probability."""
    if not task.job.space:
        return 0.0
    n = len(fitter.list_candidates(task.job.space, fold.protocol, task.job.seed)[0])
    n_folds = len(inner_folds(fold.labels, fold.groups, fold.protocol.inner_folds, task.job.seed("inner folds")))
    fewest, most = (count_fits(fold.protocol.search, n, n_folds, fewest=is_least) for is_least in (True, False))
    return (fewest + (n - 1) * most) / n


def _spread(labels: NDArray[Any]) -> NDArray[np.int64]:
    """An order of graphs in which the first of any number have the classes in about the proportions of all."""
    position = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        position[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.argsort(position, kind="stable")


def _take(fold: Fold, part: NDArray[np.int64]) -> Fold:
    """The fold with a part of its training graphs."""
    part = np.sort(part)
    groups = None if fold.groups is None else fold.groups[part]
    return fold._replace(train=fold.train[part], labels=fold.labels[part], groups=groups)


def _extrapolate(sizes: Sequence[int], trials: Sequence[_Trial], n_all: int) -> dict[str, float]:
    """The seconds of each stage for ``n_all`` training graphs, from trials with ``sizes`` of them."""
    seconds, growth = trials[-1].seconds, n_all / sizes[-1]
    if len(sizes) > 1 and sizes[-1] > sizes[-2]:
        # From the fit alone: the search of the smaller trial may have tried other settings. In CPU time, because other
        # work on the machine may have slowed down one of the trials.
        before, after = (trial.seconds["fit"] * trial.core for trial in trials[-2:])
        if before > 0 and after > 0:
            observed = _growth_of_fit(sizes[-2:], (before, after), n_all)
            growth = float(np.sqrt(growth * min(growth, observed))) if trials[-1].has_epochs else observed
    return seconds | {stage: seconds[stage] * growth for stage in ("search", "fit")}


def _growth_of_fit(sizes: Sequence[int], seconds: tuple[float, float], n_all: int) -> float:
    """How many times longer a fit takes with ``n_all`` graphs than with the larger of two sizes."""
    (small, large), (before, after) = sizes, seconds
    observed = np.log(after / before) / np.log(large / small)
    growth = float((n_all / large) ** np.clip(observed, _LOWEST_POWER, _HIGHEST_POWER))
    if observed >= 1:
        return growth
    # A part of the time does not depend on the number of graphs, and the rest is in proportion to it.
    return max(growth, 1 + (after - before) / after * (n_all - large) / (large - small))
