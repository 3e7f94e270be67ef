"""The short form of ``make chaos``: a run of most kinds, and some malformed inputs of each.

A run of ``nn_bagging`` is stopped, killed and resumed in its own folder of tests; journals that
are cut or of another run, and second starts, are tested where journals are.
"""

from __future__ import annotations

import pytest

from tests.chaos import malformed
from tests.chaos.runs import KINDS, Chaos
from tests.chaos.workloads import RACE, SVM, TPE


@pytest.fixture(scope="module")
def chaos(tmp_path_factory):
    return Chaos(tmp_path_factory.mktemp("chaos"))


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"journal", "starts"}))
def test_a_disturbed_run_ends_as_the_undisturbed_one(name, chaos):
    if reason := KINDS[name].missing():
        pytest.skip(reason)
    result = chaos.disturb(name, 0, SVM)
    assert result.broken == ""
    assert result.done


@pytest.mark.parametrize("name", ["workers", "launcher"])
@pytest.mark.parametrize(("number", "workload"), [(1, RACE), (2, TPE)])
def test_what_is_decided_by_rows_is_the_same_in_a_disturbed_run(name, number, workload, chaos):
    result = chaos.disturb(name, number, workload)
    assert result.broken == ""
    assert result.done


@pytest.mark.parametrize("kind", malformed.KINDS)
def test_a_malformed_input_is_answered_rightly_or_refused_in_one_line(kind, tmp_path):
    inputs = malformed.Inputs(tmp_path)
    for number in range(8):
        case = inputs.case(kind, number)
        malformed.outcome(case)  # or it raises Broken
        inputs.close()
