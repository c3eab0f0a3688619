"""What a long computation reports while it runs: the stage that it has reached, and each epoch of a training.

Whoever wants to know gives a :class:`Watcher` to :func:`watching`. Without one a report costs less than a microsecond.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Watcher:
    """Is told what happens inside :func:`watching`. Both methods do nothing here."""

    def on_stage(self, stage: str, number: int, total: int) -> None:
        """Stage ``number`` of ``total`` begins; the total is 0 if there is one stage of this name."""

    def on_epoch(self, history: Sequence[Mapping[str, Any]], max_epochs: int, *, may_stop: bool) -> bool:
        """An epoch has ended; the training stops if this returns True.

        ``history`` is the same list in all epochs of a training, and ``may_stop`` says whether the training can end
        before ``max_epochs`` by itself.
        """
        return False


_WATCHER: ContextVar[Watcher] = ContextVar("watcher", default=Watcher())  # noqa: B039 - has no state


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Tell ``watcher`` about everything that is computed inside the block, in this thread."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def enter_stage(stage: str, number: int = 0, total: int = 0) -> None:
    """Report that a stage begins: ``enter_stage("search", 3, 24)``."""
    _WATCHER.get().on_stage(stage, number, total)


def end_epoch(history: Sequence[Mapping[str, Any]], max_epochs: int, *, may_stop: bool) -> bool:
    """Report the end of an epoch; whether the training has to stop."""
    return _WATCHER.get().on_epoch(history, max_epochs, may_stop=may_stop)
