"""One worker for all tests of a process: to start one takes longer than forty cases."""

from collections.abc import Iterator

import pytest

from tests.fuzz.driver import Limits, Worker, workplace


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    with workplace() as place, Worker(place, Limits()) as worker:
        yield worker


@pytest.fixture(scope="session")
def impatient_worker() -> Iterator[Worker]:
    """Its limits are such that what breaks them does so soon."""
    with workplace() as place, Worker(place, Limits(seconds=2, memory=400 << 20)) as worker:
        yield worker
