"""Options of strategies and of time."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from pipelines import cross_validate
from pipelines.errors import InputError
from pipelines.search.options import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1.5h", 5400), ("1h30m", 5400), ("90", 90), ("12.5", 12.5)],
)
def test_a_time_is_read_as_it_is_typed(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10x", "m", "-5s", "ten minutes"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ArgumentTypeError, match="90s, 10m or 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"race_margin": 2.0}, "race_margin goes with strategy race"),
        ({"n_iter": 3}, "n_iter goes with strategy random"),
        ({"sampler": "plain", "strategy": "tpe"}, "sampler goes with strategy random"),
        ({"strategy": "tpe", "nested": 3}, "nested goes with candidates that are known before"),
        ({"time_budget": 0.5}, "time_budget must be at least 1 second"),
    ],
)
def test_what_is_of_another_strategy_is_refused(options, words):
    with pytest.raises(InputError) as caught:
        cross_validate.run(dry_run=True, quiet=True, **options)
    assert words.split()[0] in str(caught.value)
    assert " ".join(words.split()[1:3]) in str(caught.value)


def test_seconds_from_python_are_a_budget(tmp_path):
    run = cross_validate.run(
        limit=200,
        estimator="knn",
        param="knn:n_neighbors=1,3",
        time_budget=500.0,
        cluster="threads",
        quiet=True,
        results=tmp_path / "run",
    )
    assert run.record["options"]["time_budget"] == 500.0
