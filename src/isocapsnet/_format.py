"""Numbers, intervals, p-values and durations as text, the same wherever results are shown (leaf module)."""

import math

MISSING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """``0.712``; a dash for None and NaN."""
    return MISSING if value is None or math.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def interval(mean: float | None, low: float | None, high: float | None, digits: int = 3) -> str:
    """``0.712 [0.650, 0.774]``; the mean alone without bounds."""
    bounds = [number(low, digits), number(high, digits)]
    return number(mean, digits) + ("" if MISSING in bounds else f" [{', '.join(bounds)}]")


def p_value(p: float | None) -> str:
    """``p = 0.012``, ``p < 0.001``, with spaces that do not break; a dash for None and NaN."""
    if p is None or math.isnan(p):
        return MISSING
    return "p\u00a0<\u00a00.001" if p < 0.001 else f"p\u00a0=\u00a0{p:.3f}"


def size(n_bytes: int) -> str:
    """``12 kB``, ``3.1 MB``."""
    return f"{n_bytes / 1e3:.0f} kB" if n_bytes < 1e5 else f"{n_bytes / 1e6:.1f} MB"


def seconds(duration: float | None) -> str:
    """``40 ms``, ``4.2 s``, ``12 s``, ``3.1 min``, ``2.0 h``; a dash for None and NaN."""
    if duration is None or math.isnan(duration):
        return MISSING
    if duration < 0.95:
        return f"{1000 * duration:.0f} ms"
    if duration < 100:
        return f"{duration:.1f} s" if duration < 9.95 else f"{duration:.0f} s"
    return f"{duration / 60:.1f} min" if duration < 6000 else f"{duration / 3600:.1f} h"
