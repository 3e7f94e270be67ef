from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from pipelines.run.events import ProgressEvent
from pipelines.run.lifecycle import JournalWriter
from pipelines.run.outcomes import Outcome
from pipelines.run.progress import RunProgress

UNITS: list[Any] = [SimpleNamespace(name="a", cost=1.0), SimpleNamespace(name="b", cost=2.0)]


def test_a_task_is_written_down_as_it_arrives():
    journal = Mock()
    journal_writer = JournalWriter(journal, RunProgress(), UNITS)
    outcome = Outcome(UNITS[0], "r", None, "here", 5.0, 0.25, memory={"peak_memory": 7})
    journal_writer.record(outcome, [{"fold": 0}])
    journal.append.assert_called_once_with(
        {
            "task": "a",
            "worker": "here",
            "started": 5.0,
            "seconds": 0.25,
            "cost": 1.0,
            "peak_memory": 7,
            "rows": [{"fold": 0}],
        }
    )


def test_rows_of_a_task_at_work_are_written_down_by_the_name_of_their_part():
    journal = Mock()
    journal_writer = JournalWriter(journal, RunProgress(), UNITS)
    journal_writer.update(ProgressEvent("a", 0.2))
    journal_writer.update(
        ProgressEvent(
            "a", 0.5, [{"fold": 0}], "here", 5.0, 0.25, "part", cost=0.2, memory={"peak_memory": 7}
        ),
        [{"fold": 0}],
    )
    journal.append.assert_called_once_with(
        {
            "task": "part",
            "worker": "here",
            "started": 5.0,
            "seconds": 0.25,
            "cost": 0.2,
            "peak_memory": 7,
            "rows": [{"fold": 0}],
        }
    )
    journal_writer.record(Outcome(UNITS[0], part="rest"), [{"fold": 1}])
    assert journal.append.call_args.args[0]["task"] == "rest"
    journal_writer.record(Outcome(UNITS[1], part=""), [])  # its parts were all there was
    assert journal.append.call_count == 2


def test_what_compiled_is_said_and_its_seconds():
    journal = Mock()
    journal_writer = JournalWriter(journal, RunProgress(), UNITS)
    journal_writer.record(Outcome(UNITS[0], "r", None, "here", 5.0, 9.0, 8.5), [])
    assert journal.append.call_args.args[0]["compile_seconds"] == 8.5


def test_tasks_of_a_batch_are_stored_together():
    for part in (None, ""):
        journal = Mock()
        journal_writer = JournalWriter(journal, RunProgress(), UNITS)
        journal_writer.record(Outcome(UNITS[0], has_next=True), [])
        assert [call[0] for call in journal.method_calls] == ["add"]
        journal_writer.record(Outcome(UNITS[1], part=part), [])
        assert [call[0] for call in journal.method_calls][1:] == (
            ["append"] if part is None else ["store"]
        )
