"""Data that several commands are tried on."""

import pytest

from isocapsnet.datasets import BrainGraphs
from tests.datasets.conftest import make_study


@pytest.fixture
def study() -> BrainGraphs:
    return make_study()
