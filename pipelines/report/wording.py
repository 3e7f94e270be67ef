"""Numbers, times and names as text, for figures and pages."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pipelines.run_folder.statistics import interval


def percent(fraction: float | None) -> str:
    """A fraction in percent with two decimals: ``1.25 %`` for 0.0125."""
    if fraction is None or not math.isfinite(fraction):
        return "–"
    return f"{100 * fraction:.2f} %"


def significant(value: float | None) -> str:
    """A number with three significant digits: ``0.0193``, ``1,390``, ``7.2e5``."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.2e}".split("e")
    power = int(exponent)
    if -4 <= power < 5:
        text = f"{float(f'{mantissa}e{exponent}'):,.{max(0, 2 - power)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{mantissa.rstrip('0').rstrip('.')}e{power}"


def duration(seconds: float | None) -> str:
    """Seconds as a duration: ``8.4 s``, ``2 min 05 s``, ``3 h 12 min``."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, remaining_seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remaining_seconds:02d} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """A number and its noun: ``1 worker``, ``1,437 rows``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def wrong_of(n_wrong: int | None, n_test: int | None) -> str:
    """A number of errors with its confidence interval; empty if one of the numbers is unknown."""
    if n_wrong is None or n_test is None:
        return ""
    return f"{n_wrong:,} of {n_test:,} test samples, {interval(n_wrong, n_test)}"


def timestamp(text: str) -> str:
    """A time of ``run.json``, which is in UTC, as ``2025-11-20 10:13 UTC``."""
    return f"{text[:16].replace('T', ' ')} UTC"


def shorten(name: str, length: int) -> str:
    """A name, cut and ended with an ellipsis if it is longer than ``length``."""
    return name if len(name) <= length else name[: length - 1] + "…"


def typed_value(value: object) -> str:
    """The value of an option as it is typed on a command line."""
    if isinstance(value, list | tuple):
        return " ".join(map(typed_value, value))
    if isinstance(value, Mapping):
        return " ".join(f"{name}={typed_value(part)}" for name, part in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else str(value)
