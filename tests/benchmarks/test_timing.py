"""Lines are timed in turn, and compared turn by turn."""

import pytest

from benchmarks.timing import Timed, in_turn, ratios


def test_lines_take_turns():
    calls, echoed_lines = [], []
    lines = {name: lambda name=name: calls.append(name) or len(calls) for name in "AB"}
    first_line, other = in_turn(lines, 3, echoed_lines.append)
    assert "".join(calls) == "ABABAB"
    assert (first_line.name, other.name) == ("A", "B")
    assert len(first_line.seconds) == len(other.seconds) == 3
    assert (first_line.result, other.result) == (5, 6)
    assert len(echoed_lines) == 6


def test_ratios_are_of_medians_and_of_turns():
    slow, fast = Timed("slow", (8.0, 12.0, 10.0), None), Timed("fast", (2.0, 2.0, 5.0), None)
    assert ratios(slow, fast) == pytest.approx((5.0, 2.0, 6.0))
