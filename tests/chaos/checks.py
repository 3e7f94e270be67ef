"""What must hold of a run, however it was disturbed."""

from __future__ import annotations

import json

import pandas as pd

from pipelines.commands import job_of
from pipelines.data.model_file import read_model
from pipelines.run_folder.journal import Journal
from tests.chaos.program import Broken

WHERE_AND_HOW_FAST = ["fit_seconds", "score_seconds", "worker"]


def journal_of(folder):
    """The whole records in the journal of a run; none where it has not begun."""
    path = folder / "journal.jsonl"
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def n_done(folder):
    """Tasks in the journal of a run."""
    return journal_of(folder).count(b"\n")


def must_keep(before, folder):
    """Hold a journal to what was in it before; give what is in it now."""
    after = journal_of(folder)
    if not after.startswith(before):
        raise Broken("a record that was in the journal is not there any more")
    return after


def must_be_readable(folder):
    """Hold a run that was stopped to records and an account of itself that can be read."""
    for line in journal_of(folder).splitlines():
        if not json.loads(line)["rows"]:
            raise Broken("a record of the journal has no rows")
    if (folder / "run.json").exists():
        json.loads((folder / "run.json").read_text())


def must_equal(workload, folder, truth):
    """Hold a finished run to the one that nobody disturbed."""
    record = _record(folder)
    row, fingerprint = job_of(workload.command).row, record.get("fingerprint")
    with Journal(folder / "journal.jsonl", row, fingerprint, write=False) as journal:
        tasks = [entry["task"] for entry in journal.records]
    n_extra = len(tasks) - workload.n_tasks
    if n_extra < 0 or (n_extra and not workload.asks_ahead) or len(set(tasks)) != len(tasks):
        raise Broken(
            f"{workload.n_tasks} tasks, but {len(tasks)} records of {len(set(tasks))} tasks"
        )
    try:
        pd.testing.assert_frame_equal(_rows(folder), _rows(truth))
    except AssertionError as error:
        raise Broken(f"other rows: {error}") from None
    actual, expected = record, _record(truth)
    if actual["status"] != "finished" or not (folder / "report.html").exists():
        raise Broken("the run does not call itself finished, or has no report")
    for key in workload.answers:
        if without_times(actual[key]) != without_times(expected[key]):
            raise Broken(f"another answer: {key} is {actual[key]}, not {expected[key]}")
    for pattern in workload.files:
        names = {
            path.relative_to(where) for where in (folder, truth) for path in where.glob(pattern)
        }
        for name in sorted(names):
            if not (folder / name).exists() or not (truth / name).exists():
                raise Broken(f"{name} is in one of the two runs only")
            if not same(folder / name, truth / name):
                raise Broken(f"another {name}")


def must_be_one_line(complaint, begins, holds=""):
    """Hold what a stopped run said on stderr to one line that says what was asked of it.

    ``begins`` is the command's name, and perhaps more; a message has it as it is typed.
    """
    begins, lines = begins.replace("_", "-"), complaint.strip().splitlines()
    if len(lines) != 1 or not lines[0].startswith(begins) or holds not in lines[0]:
        raise Broken(f"not one line {begins!r} … {holds!r}: {' | '.join(lines[-12:])}")


def _rows(folder):
    table = pd.read_parquet(folder / "cv_results.parquet")
    return table.drop(columns=WHERE_AND_HOW_FAST)


def same(actual, expected):
    """Whether two files of a run hold the same."""
    if actual.suffix != ".safetensors":
        return actual.read_bytes() == expected.read_bytes()
    # Its header is written in any order.
    (arrays, about), (expected_arrays, others_about) = read_model(actual), read_model(expected)
    return (
        about == others_about
        and arrays.keys() == expected_arrays.keys()
        and all(arrays[name].tobytes() == expected_arrays[name].tobytes() for name in arrays)
    )


def _record(folder):
    return json.loads((folder / "run.json").read_text())


def without_times(value):
    if isinstance(value, dict):
        kept = {key: without_times(part) for key, part in value.items()}
        return {key: part for key, part in kept.items() if key not in WHERE_AND_HOW_FAST}
    if isinstance(value, list):
        return [without_times(part) for part in value]
    return value
