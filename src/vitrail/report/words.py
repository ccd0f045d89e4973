"""How figures are written for people."""

from __future__ import annotations

import math

_UNITS = (("second", 1.0), ("minute", 60.0), ("hour", 3600.0), ("day", 86400.0))


def percent(share: float, decimals: int = 1) -> str:
    """`91.2%`; never 100% or 0% for a share that is only close to it."""
    if not math.isfinite(share):
        return "–"
    written = f"{share:.{decimals}%}"
    step = 10.0**-decimals
    if 0 < share < 1 and float(written[:-1]) in (0, 100):
        return f"under {step:g}%" if share < 0.5 else f"over {100 - step:g}%"
    return written


def figure(value: float) -> str:
    """Three significant digits, without an exponent where there is room: `0.412`, `12,500`, `3e-05`."""
    if not math.isfinite(value):
        return "–"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        digits = 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
        written = f"{value:,.{digits}f}"
        return written.rstrip("0").rstrip(".") if "." in written else written
    return f"{value:.3g}"


def count(number: int, thing: str) -> str:
    """`1 picture`, `12,000 pictures`, `2 classes`."""
    if number == 1:
        return f"1 {thing}"
    return f"{number:,} {thing}{'es' if thing.endswith('s') else 's'}"


def duration(seconds: float) -> str:
    """`48 seconds`, `12 minutes`, `2.5 hours`, in the unit that keeps it short."""
    name, size = unit_of_time(seconds)
    value = seconds / size
    written = f"{value:.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
    return f"{written} {name}" if written == "1" else f"{written} {name}s"


def unit_of_time(seconds: float) -> tuple[str, float]:
    """The largest unit of which there are two or more, and its seconds."""
    return next(((name, size) for name, size in reversed(_UNITS) if seconds >= 2 * size), _UNITS[0])


def listed(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
