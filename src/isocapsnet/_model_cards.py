"""The card of a model."""

from typing import Any


def make_card(estimator: Any, pipeline: Any, settings: Any) -> dict[str, Any]:
    return {"settings": settings, "expected": pipeline.expected}


def describe_expected(card: Any) -> list[str]:
    return []
