import math

import pytest

from pipelines.report.wording import count, duration, percent, shorten, significant, timestamp


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.01, "0.01"),
        (0.0193069773, "0.0193"),
        (1e-6, "1e-6"),
        (3.7276e-5, "3.73e-5"),
        (0.000719686, "0.00072"),
        (1.0, "1"),
        (7.1969, "7.2"),
        (138.9495, "139"),
        (1389.5, "1,390"),
        (99999, "1e5"),
        (719685.67, "7.2e5"),
        (9.999, "10"),
        (1000.0, "1,000"),
        (100, "100"),
        (0, "0"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_three_significant_digits(value, text):
    assert significant(value) == text
    if value:
        digits = significant(value)
        assert digits == "–" or float(digits.replace(",", "")) == pytest.approx(value, rel=5e-3)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.0125, "1.25 %"), (0, "0.00 %"), (1, "100.00 %"), (math.nan, "–"), (None, "–")],
)
def test_percent_has_two_decimals(fraction, text):
    assert percent(fraction) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (8.44, "8.4 s"),
        (59.96, "1 min 00 s"),
        (125.2, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (11520, "3 h 12 min"),
        (200_000, "55 h 33 min"),
        (None, "–"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_the_rest():
    assert count(1, "class", "classes") == "1 class"
    assert count(2, "class", "classes") == "2 classes"
    assert timestamp("2025-11-20T10:13:20+00:00") == "2025-11-20 10:13 UTC"
    assert shorten("abcdef", 4) == "abc…"
