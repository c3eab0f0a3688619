"""Where a running job is: sent by the process that runs it, a few times per second at most."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from isocapsnet._stages import Watcher
from isocapsnet._validation import InputError
from isocapsnet.evaluation.jobs import Job

#: Epochs and fits of a search are reported at most once in so many seconds.
_INTERVAL = 0.2


class Stage(NamedTuple):
    """What a job does: ``search`` (fit ``number`` of ``total``), ``fit``, ``predict`` or ``explain``; and its epoch.

    A total of 0 means that there is one stage of this name, and 0 epochs that no network is trained.
    """

    name: str
    number: int = 0
    total: int = 0
    epoch: int = 0
    max_epochs: int = 0

    def __str__(self) -> str:
        """``search 3/24, epoch 12/100``."""
        count = f" {self.number}/{self.total}" if self.total else ""
        return f"{self.name}{count}" + (f", epoch {self.epoch}/{self.max_epochs}" if self.max_epochs else "")

    @classmethod
    def from_json(cls, content: Any) -> "Stage":
        """A stage that a process has sent."""
        if not isinstance(content, list) or len(content) != 5 or not isinstance(content[0], str):
            raise InputError("A worker process sent a progress message that cannot be read.")
        return cls(content[0], *(int(number) for number in content[1:]))


#: Is called with each stage of a job.
OnStage = Callable[[Job, Stage], None]


class StageReporter(Watcher):
    """Gives each change of the stage to ``send``: new stages at once, epochs and fits of a search after a while."""

    def __init__(self, send: Callable[[Stage], None]) -> None:
        self._send, self._stage, self._sent = send, Stage(""), 0.0

    def on_stage(self, stage: str, number: int, total: int) -> None:
        is_new = stage != self._stage.name
        self._stage = Stage(stage, number, total)
        self._report(is_new)

    def on_epoch(self, history: Sequence[Mapping[str, Any]], max_epochs: int, *, may_stop: bool) -> bool:
        self._stage = self._stage._replace(epoch=len(history), max_epochs=max_epochs)
        self._report()
        return False

    def _report(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._sent >= _INTERVAL:
            self._sent = now
            self._send(self._stage)
