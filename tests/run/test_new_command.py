"""A command that is added by its own file and a line in the list of commands."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from pipelines import Run, commands
from pipelines.__main__ import main, usage
from pipelines.errors import InputError
from tests.run import toy

TARGETS = np.array([1.0, 2.0, 2.0, 3.0, 10.0] * 8)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of numbers; the command is registered."""
    registered = commands.Command("tests.run.toy", "the constant nearest to a target")
    monkeypatch.setitem(commands.COMMANDS, "constant", registered)
    path = tmp_path / "numbers.csv"
    pd.DataFrame({"x": np.arange(40) * 0.5, "y": TARGETS}).to_csv(path, index=False)
    return path


def test_a_command_of_one_file_has_all_that_others_have(table, tmp_path, capsys):
    run = tmp_path / "run"
    words = ["--dataset", str(table), "--target", "y", "--cluster", "threads"]
    assert main(["constant", *words, "--results", str(run)]) == 0
    output = capsys.readouterr().out
    assert "constants  5 of numbers" in output
    assert "constant   2\n" in output  # the median, which is nearest to all

    # Its answer, its rows and its page.
    record = json.loads((run / "run.json").read_text())
    assert (record["constant"], record["status"]) == (2.0, "finished")
    assert {"constant.csv", "journal.jsonl"} <= {*record["files"]}
    assert "<title>A constant on numbers" in (run / "report.html").read_text()
    assert Run(run).model == 2.0
    assert "the constant nearest to a target" in usage()

    # Resumed, nothing is computed again; a line of the journal that is gone is.
    before = (run / "journal.jsonl").read_bytes()
    assert main(["constant", "--resume", str(run)]) == 0
    assert (run / "journal.jsonl").read_bytes() == before
    capsys.readouterr()
    record["status"] = "stopped"
    (run / "run.json").write_text(json.dumps(record))
    (run / "journal.jsonl").write_bytes(b"".join(before.splitlines(keepends=True)[:3]))
    assert main(["constant", "--resume", str(run)]) == 0
    tasks = [json.loads(line)["task"] for line in (run / "journal.jsonl").read_text().splitlines()]
    assert sorted(tasks) == [f"quantile={q}" for q in ("0", "0.25", "0.5", "0.75", "1")]

    # Drawn again, it predicts; what has changed is refused.
    (run / "report.html").unlink()
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").is_file()
    assert main(["constant", "predict", str(run), str(table)]) == 0
    assert pd.read_csv(tmp_path / "numbers-predictions.csv")["predicted"].tolist() == [2.0] * 40
    (run / "constant.csv").write_text("3.0\n")
    capsys.readouterr()
    assert main(["constant", "predict", str(run), str(table)]) == 2
    assert "constant.csv" in capsys.readouterr().err


def test_its_schemas_are_those_of_its_runs(table, tmp_path, capsys):
    run = toy.run(dataset=str(table), target="y", cluster="threads", results=tmp_path / "run")
    record = json.loads((run / "run.json").read_text())
    for name, wrong in (("constant", "two"), ("constant", None)):
        (run / "run.json").write_text(json.dumps(record | {name: wrong}))
        with pytest.raises(InputError, match="constant"):
            toy.run(resume=run.path)
    assert main(["constant", "predict", str(run)]) == 2
    assert "needs a TABLE or --image" in capsys.readouterr().err


def test_an_answer_that_breaks_its_schema_ends_the_run_in_a_line(
    table, tmp_path, monkeypatch, capsys
):
    def answer(*_):
        return toy.ConstantAnswer.of({"constant": float("nan"), "n_failed": -1})

    monkeypatch.setattr(toy.Constant, "answer", answer)
    words = ["--dataset", str(table), "--target", "y", "--cluster", "threads"]
    assert main(["constant", *words, "--results", str(tmp_path / "run")]) == 1
    message = capsys.readouterr().err
    assert message.startswith("constant: the answer cannot be recorded: n_failed: ")
    assert "finished fits are saved in" in message
    assert "Traceback" not in message
