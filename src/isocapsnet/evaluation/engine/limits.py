"""The limits of a job."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Seconds that a job may take once data and method are loaded, and bytes that it may use; None: no limit."""

    seconds: float | None = None
    memory: int | None = None
