"""Loggers by name, of other packages, that fail, and of commands that know nothing of them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines import commands, svm_grid
from pipelines.__main__ import main
from pipelines.errors import InputError
from pipelines.run.groups import RunOptions
from pipelines.run.tracking import engine, loggers_of
from pipelines.run.tracking.description import answer_of, logged_parameters
from pipelines.testing import LoggerContract
from tests.command_runs import said_by

SMALL = ["--limit", "150", "--n-c", "2", "--n-gamma", "2", "--folds", "2"]
SMALL += ["--cluster", "threads", "--solver", "path"]
OTHERS = """
import json
from pathlib import Path

from pipelines.run.tracking.logger import RunLogger


class Lines(RunLogger):
    # A line of JSON for all that it is told.

    def begin(self, start):
        self.file = Path(self.target or start.folder / "log.jsonl")
        self.write(begin=start.name, parameters=dict(start.parameters), state=dict(start.state))
        return {"where": str(self.file)}

    def log(self, metrics):
        self.write(metrics=[metric._asdict() for metric in metrics])

    def finish(self, end):
        artifacts = {name: [path.name for path in paths] for name, paths in end.artifacts.items()}
        self.write(end=end.status, metrics=dict(end.metrics), artifacts=artifacts)

    def write(self, **entries):
        with self.file.open("a") as file:
            file.write(json.dumps(entries) + chr(10))


class Broken(Lines):
    def log(self, metrics):
        raise ConnectionError("the server is gone")

    def finish(self, end):
        raise ConnectionError("the server is gone")


class Slow(Lines):
    def log(self, metrics):
        import time
        time.sleep(30)


nothing = 3
"""

Install = Callable[..., Any]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A function that installs a package with entry points as pip would have it."""
    site = tmp_path / "site"
    site.mkdir()

    def put(package: str, **entries: str) -> None:
        (site / f"{package}.py").write_text(OTHERS)
        about = site / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in entries.items()]
        (about / "entry_points.txt").write_text("\n".join(["[pleasingly.loggers]", *lines]))

    before = set(sys.modules)
    monkeypatch.syspath_prepend(site)
    yield put
    for name in set(sys.modules) - before:
        if name.startswith("others_"):
            del sys.modules[name]


def entries_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def metrics_of(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        metric
        for entry in entries
        if "begin" not in entry and "end" not in entry
        for metric in entry["metrics"]
    ]


def test_a_logger_of_another_package_has_all(install: Install, tmp_path: Path) -> None:
    install("others_lines", lines="others_lines:Lines")
    folder = tmp_path / "grid"
    said = said_by("svm_grid", *SMALL, "--results", str(folder), "--log-to", "lines")
    assert f"lines      run grid in {folder / 'log.jsonl'}\n" in said
    first, *rest, last = entries_of(folder / "log.jsonl")
    assert (first["begin"], first["state"]) == ("grid", {})
    scores = [metric for metric in metrics_of(rest) if metric["name"] == "fold_score"]
    assert [metric["step"] for metric in scores] == list(range(8))
    assert all(abs(metric["time"] - time.time()) < 3600 for metric in scores)
    assert last["end"] == "finished"
    record = json.loads((folder / "run.json").read_text())
    assert last["metrics"]["best_cv_score"] == record["best"]["score_mean"]
    assert last["artifacts"]["model"] == ["model.safetensors"]
    assert "run.json" in last["artifacts"][""]


class TestContract(LoggerContract):
    @pytest.fixture
    def make_logger(self, install):
        install("others_contract", lines="others_contract:Lines")
        (logger,) = loggers_of(RunOptions(log_to=("lines",)), ["log_to"], print).values()
        return type(logger)


def test_two_at_once(install: Install, tmp_path: Path) -> None:
    install("others_two", lines="others_two:Lines")
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    words = ["--log-to", *(f"lines:{path}" for path in paths)]
    said_by("svm_grid", *SMALL, "--results", str(tmp_path / "grid"), *words)
    assert [len(metrics_of(entries_of(path))) for path in paths] == [24, 24]


def test_one_that_fails_is_said_once_and_ends_nothing(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("others_broken", broken="others_broken:Broken")
    folder = tmp_path / "grid"
    assert svm_grid.main([*SMALL, "--results", str(folder), "--log-to", "broken"]) == 0
    captured = capsys.readouterr()
    said = "warning    broken does not take the log (ConnectionError: the server is gone): the run "
    assert captured.out.count(said) == captured.out.count("broken does not take") == 1
    assert captured.err == ""
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"


def test_one_that_does_not_answer_is_not_waited_for(
    install: Install,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install("others_slow", slow="others_slow:Slow")
    monkeypatch.setattr(engine, "SECONDS_TO_FINISH", 0.5)
    folder = tmp_path / "grid"
    assert svm_grid.main([*SMALL, "--results", str(folder), "--log-to", "slow"]) == 0
    assert "slow does not take the log (TimeoutError: no answer in 0" in capsys.readouterr().out
    tracker = json.loads((folder / "run.json").read_text())["trackers"]["slow"]
    assert (tracker["n_records"], tracker["is_whole"]) == (0, False)


def test_one_that_is_gone_does_not_keep_a_run_from_resuming(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    install("others_gone", lines="others_gone:Lines")
    folder = tmp_path / "grid"
    said_by("svm_grid", *SMALL, "--results", str(folder), "--log-to", "lines")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("site")])
    assert svm_grid.main(["--resume", str(folder)]) == 0
    warning = "warning    this session is not logged: --log-to must be one of"
    assert warning in capsys.readouterr().out
    assert svm_grid.main(["--resume", str(folder), "--log-to", "lines"]) == 2


def test_a_recorded_address_is_not_asked_until_it_is_named_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run's folder may be anyone's, and so may the server that it names."""
    folder = tmp_path / "grid"
    said_by("svm_grid", *SMALL, "--results", str(folder))
    record = json.loads((folder / "run.json").read_text())
    record["options"]["mlflow"] = "https://example.invalid"
    (folder / "run.json").write_text(json.dumps(record))
    assert svm_grid.main(["--resume", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "https://example.invalid, as the run was: add --mlflow https://example.invalid\n" in said


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("others_wrong:nothing", "RunLogger, got others_wrong:nothing; mend or uninstall"),
        ("others_wrong:missing", r"cannot be imported \(AttributeError: .*'missing'\); mend"),
    ],
)
def test_what_is_no_logger_is_refused(install: Install, place: str, why: str) -> None:
    install("others_wrong", mine=place)
    with pytest.raises(InputError, match=why) as raised:
        svm_grid.run(log_to="mine")
    assert "\n" not in str(raised.value)


def test_unknown_names_and_candidates_without_mlflow_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert svm_grid.main(["--log-to", "mlfow"]) == 2
    assert "--log-to must be one of mlflow, wandb, tensorboard" in capsys.readouterr().err
    assert svm_grid.main(["--mlflow-candidates"]) == 2
    assert "--mlflow-candidates must go with a run" in capsys.readouterr().err


def test_two_packages_with_one_name_are_refused(install: Install) -> None:
    install("others_a", mine="others_a:Lines")
    install("others_b", mine="others_b:Lines")
    with pytest.raises(InputError, match="others_a:Lines and others_b:Lines; uninstall"):
        svm_grid.run(log_to="mine")


def test_a_new_command_has_it_without_a_line(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("others_new", lines="others_new:Lines")
    registered = commands.Command("tests.run.toy", "the constant nearest to a target")
    monkeypatch.setitem(commands.COMMANDS, "constant", registered)
    table = tmp_path / "numbers.csv"
    pd.DataFrame({"x": np.arange(40) / 2, "y": [1.0, 2.0, 2.0, 3.0, 10.0] * 8}).to_csv(
        table, index=False
    )
    words = ["--dataset", str(table), "--target", "y", "--cluster", "threads"]
    folder = tmp_path / "run"
    assert main(["constant", *words, "--results", str(folder), "--log-to", "lines"]) == 0
    _, *rest, last = entries_of(folder / "log.jsonl")
    assert {metric["name"] for metric in metrics_of(rest)} == {"quantile", "error"}
    assert last["metrics"]["constant"] == 2.0


def test_what_is_logged_of_a_record() -> None:
    nothing = float("nan")
    record = {
        "seed": 3,
        "test_error": None,
        "vote_test_error": 0.25,
        "converged": True,
        "x": nothing,
    }
    record |= {"test_scores": {"f1": 0.5}, "best": {"score_mean": 0.75, "error_std": None}}
    record["best"] |= {"algorithm": "knn", "parameters": {"n_neighbors": 3, "p": None}}
    metrics, parameters = answer_of(record)
    expected = {"test_error": 0.25, "vote_test_error": 0.25, "test_f1": 0.5, "best_cv_score": 0.75}
    assert metrics == expected
    assert parameters == {"best_algorithm": "knn", "best_n_neighbors": 3}


def test_no_password_is_logged() -> None:
    logged = logged_parameters(
        {"where": "tls://me:secret@host:1", "list": ["a", 1], "number": 0.5, "yes": True}
    )
    assert logged == {"where": "tls://host:1", "list": "a 1", "number": 0.5, "yes": True}
