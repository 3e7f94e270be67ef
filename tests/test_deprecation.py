"""Former public names work for a version, and warn where they are used."""

from __future__ import annotations

import inspect

import pytest

import pipelines
from pipelines import deprecation
from pipelines.deprecation import renamed_parameters


def test_a_former_name_is_the_present_one_and_warns(monkeypatch):
    monkeypatch.setitem(deprecation.FORMER_NAMES, "KernelSearch", ("SVMGridSearch", "0.2.0"))
    message = "^KernelSearch is called SVMGridSearch since 0.2.0, .*; use SVMGridSearch$"
    with pytest.warns(FutureWarning, match=message) as warnings:
        former = pipelines.KernelSearch
    assert former is pipelines.SVMGridSearch
    assert warnings[0].filename == __file__


def test_another_name_is_an_error():
    with pytest.raises(AttributeError, match="has no attribute 'KernelSearch'"):
        pipelines.KernelSearch  # noqa: B018


@renamed_parameters("0.2.0", n_jobs="workers")
def fit(X, workers=1):
    return X, workers


def test_a_former_parameter_is_the_present_one_and_warns():
    with pytest.warns(FutureWarning, match="^n_jobs is called workers since") as warnings:
        assert fit(3, n_jobs=2) == (3, 2)
    assert warnings[0].filename == __file__
    assert fit(3, workers=4) == (3, 4)
    assert list(inspect.signature(fit).parameters) == ["X", "workers"]


def test_both_names_at_once_are_refused():
    with pytest.raises(TypeError, match="got n_jobs and workers, its present name"):
        fit(3, n_jobs=2, workers=2)
