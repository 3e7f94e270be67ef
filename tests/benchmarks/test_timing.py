"""Lines are timed in turn, and compared turn by turn."""

import pytest

from benchmarks.timing import Timed, in_turn, ratios


def test_lines_take_turns():
    calls, said = [], []
    lines = {name: lambda name=name: calls.append(name) or len(calls) for name in "AB"}
    one, other = in_turn(lines, 3, said.append)
    assert "".join(calls) == "ABABAB"
    assert (one.name, other.name) == ("A", "B")
    assert len(one.seconds) == len(other.seconds) == 3
    assert (one.result, other.result) == (5, 6)
    assert len(said) == 6


def test_ratios_are_of_medians_and_of_turns():
    slow, fast = Timed("slow", (8.0, 12.0, 10.0), None), Timed("fast", (2.0, 2.0, 5.0), None)
    assert ratios(slow, fast) == pytest.approx((5.0, 2.0, 6.0))
