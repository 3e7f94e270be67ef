"""The contract of loggers: what a run relies on, whatever tracker stands behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pipelines.run.tracking.logger import (
    CandidateLog,
    Parameters,
    RunEnd,
    RunLogger,
    RunStart,
    Status,
)
from pipelines.run_folder.rows import Metric
from pipelines.run_folder.schema import Scalar

METRICS = [
    Metric("fold_score", 0.9, 0, "", 1.5e9),
    Metric("fold_score", 0.8, 1, "", 1.5e9 + 1),
    Metric("loss", 2.5, 3, "every-k=4 on 2, repeat 1", 1.5e9 + 2),
]


class LoggerContract:
    """Tests of a logger; a subclass defines the fixture ``make_logger``.

    It is made without a trace in the run's folder, so that a dry run leaves none; its state goes
    into ``run.json`` and comes back, and with it another logger goes on in the same place; it takes
    a metric twice, any letters in names of curves, no metrics at all, and an end of any status with
    or without files.
    """

    @pytest.fixture
    def make_logger(self, tmp_path: Path) -> Callable[[], RunLogger]:
        """A function that makes the logger; its target may be in ``tmp_path``, beside ``run``."""
        raise NotImplementedError("define the fixture make_logger in the subclass")

    def test_a_run_is_logged_and_goes_on(
        self, make_logger: Callable[[], RunLogger], tmp_path: Path
    ) -> None:
        run = tmp_path / "run"
        run.mkdir()
        first = make_logger()
        assert not any(run.iterdir()), "it writes before the run begins"
        state = _begun(first, run, {})
        first.log(METRICS)
        first.finish(_end("killed", {}))
        again = make_logger()
        same = {name: value for name, value in state.items() if name != "where"}
        assert same.items() <= _begun(again, run, state).items(), "a resumed run goes elsewhere"
        again.log(METRICS[1:])
        again.log([])
        page = run / "report.html"
        page.write_text("<title>a run</title>")
        again.finish(_end("finished", {"": [page]}))
        other = make_logger()
        new = _begun(other, run, {})
        assert not same or not same.items() <= new.items(), "two runs are one"
        other.finish(_end("failed", {}))


def _begun(logger: RunLogger, run: Path, state: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    parameters: Parameters = {
        "n_c": 8,
        "tol": 1e-3,
        "probability": True,
        "kernel": "rbf",
        "empty": "",
    }
    tags = {"command": "svm_grid", "folder": str(run)}
    start = RunStart("run", "svm-grid", run, parameters, tags, ("digits", "0" * 64), state)
    state = dict(logger.begin(start))
    assert json.loads(json.dumps(state, allow_nan=False)) == state, "run.json cannot hold its state"
    assert all(isinstance(value, bool | int | float | str | None) for value in state.values())
    return state


def _end(status: Status, artifacts: Mapping[str, list[Path]]) -> RunEnd:
    candidate = CandidateLog("svm 0", {"C": 1.0}, METRICS[:2], {"cv_score": 0.85})
    metrics = {"best_cv_score": 0.85, "test_error": 0.2} if status == "finished" else {}
    parameters = {"best_C": 1.0} if status == "finished" else {}
    return RunEnd(status, metrics, parameters, artifacts, "The best is C = 1.", [candidate])
