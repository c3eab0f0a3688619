"""Numbers as text."""

import pytest

from isocapsnet import _format


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12 ms"), (4.2, "4.2 s"), (12.4, "12 s"), (200, "3.3 min"), (7200, "2.0 h"), (None, "–")],
)
def test_duration_has_a_readable_unit(seconds: float | None, text: str) -> None:
    assert _format.seconds(seconds) == text


def test_missing_numbers_are_dashes_and_intervals_without_bounds_are_means() -> None:
    assert _format.number(None) == _format.number(float("nan")) == "–"
    assert _format.interval(0.5, None, 0.9) == "0.500"
    assert _format.interval(-0.5, -0.6, float("nan")) == "−0.500"
    assert _format.p_value(0.0001) == "p\u00a0<\u00a00.001"
    assert _format.interval(0.5, 0.4, 0.6, digits=1) == "0.5 [0.4, 0.6]"
