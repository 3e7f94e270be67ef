from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from pipelines.errors import InputError
from pipelines.run_folder.journal import FolderLost, Journal
from pipelines.run_folder.names import RECORD

PLACE = {"worker": "w", "started": 1.5, "seconds": 0.5}
RECORDS = [
    {"task": f"u{i}", **PLACE, "session": 1, "rows": [{"C": 10.0**i, "error": 1 / (i + 3)}]}
    for i in range(5)
]


def write(path, records):
    with Journal(path) as journal:
        for record in records:
            journal.append(record)
    return path.read_bytes()


def test_records_come_back_as_they_were(tmp_path):
    write(tmp_path / "journal", RECORDS)
    with Journal(tmp_path / "journal") as journal:
        assert journal.records == RECORDS


@hypothesis.given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_journal_cut_anywhere_keeps_every_whole_record(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "journal"
    content = write(path, RECORDS)
    cut %= len(content) + 1
    path.write_bytes(content[:cut])
    with Journal(path) as journal:
        n_whole = content[:cut].count(b"\n")
        assert journal.records == RECORDS[:n_whole]
        journal.append({"task": "after", **PLACE, "rows": []})
    after = {"task": "after", **PLACE, "rows": [], "session": 2 if n_whole else 1}
    with Journal(path) as journal:
        assert journal.records == [*RECORDS[:n_whole], after]


@hypothesis.given(position=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7))
def test_a_flipped_bit_costs_at_most_two_records(tmp_path_factory, position, bit):
    path = tmp_path_factory.mktemp("flipped") / "journal"
    content = bytearray(write(path, RECORDS))
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(content)
    with Journal(path) as journal:
        for record in journal.records:  # the name of the checksum may be what was flipped
            assert any(was.items() <= record.items() for was in RECORDS)
        assert len(journal.records) >= len(RECORDS) - 2  # a line end that is none joins two


def test_a_damaged_line_costs_its_own_record(tmp_path):
    lines = write(tmp_path / "journal", RECORDS).splitlines(keepends=True)
    lines[1], lines[3] = b"garbage\n", b'{"rows": 3}\n'
    (tmp_path / "journal").write_bytes(b"".join(lines))
    with Journal(tmp_path / "journal") as journal:
        assert journal.records == [RECORDS[0], RECORDS[2], RECORDS[4]]


def test_a_record_that_does_not_fit_the_disk_leaves_no_trace(tmp_path, monkeypatch):
    path = tmp_path / "journal"
    before = write(path, RECORDS)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Journal(path) as journal:
        monkeypatch.setattr(os, "fsync", full)
        journal.add({"task": "little"})
        with pytest.raises(OSError, match="No space left"):
            journal.append({"task": "too much"})
    assert path.read_bytes() == before


def test_records_that_were_added_are_stored_with_the_next(tmp_path, monkeypatch):
    path, stored, fsync = tmp_path / "journal", list[int](), os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (stored.append(file), fsync(file)))
    with Journal(path) as journal:
        for record in RECORDS[:3]:
            journal.add(record)
        assert (journal.records, path.read_bytes()) == ([], b"")
        journal.append(RECORDS[3])
        assert journal.records == RECORDS[:4]
        assert path.read_bytes() == write(tmp_path / "apart", RECORDS[:4])
        journal.add(RECORDS[4])  # the session ends
    assert len(stored) == 1 + 4 + 1  # four apart
    with Journal(path) as journal:
        assert journal.records == RECORDS


def test_two_runs_cannot_write_one_journal(tmp_path):
    with Journal(tmp_path / "journal"), pytest.raises(InputError, match="another process"):
        Journal(tmp_path / "journal")


LINE = {"task": "next", **PLACE, "rows": []}


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("pipelines.run_folder.journal.SECONDS_BETWEEN_LOOKS", 0.0)


def delete(folder):
    shutil.rmtree(folder)


def rename(folder):
    folder.rename(folder.with_name("elsewhere"))


def replace_by_a_copy(folder):
    rename(folder)
    shutil.copytree(folder.with_name("elsewhere"), folder)


def put_a_file_there(folder):
    shutil.rmtree(folder)
    folder.touch()


@pytest.mark.parametrize("what", [delete, rename, replace_by_a_copy, put_a_file_there])
@pytest.mark.parametrize("n_before", [0, 2])
def test_a_folder_that_is_gone_is_said_at_the_next_record(what, n_before, tmp_path, impatient):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / RECORD).touch()
    with Journal(folder / "journal.jsonl") as journal:
        for record in RECORDS[:n_before]:
            journal.append(record)
        what(folder)
        with pytest.raises(FolderLost, match=str(folder)) as lost:
            journal.append(LINE)
    renamed = what in (rename, replace_by_a_copy) and sys.platform == "linux"
    assert lost.value.now == (tmp_path / "elsewhere" if renamed else None)


def test_it_is_found_though_the_working_folder_changes(tmp_path, monkeypatch, impatient):
    monkeypatch.chdir(tmp_path)
    with Journal(Path("journal")) as journal:
        monkeypatch.chdir("/")
        journal.append(LINE)


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.EACCES, errno.ETIMEDOUT])
def test_a_file_system_that_does_not_answer_ends_no_run(code, tmp_path, monkeypatch):
    def no_answer(path, **how):
        raise OSError(code, os.strerror(code))

    with Journal(tmp_path / "journal") as journal:
        monkeypatch.setattr(os, "stat", no_answer)
        journal.append(LINE)
        monkeypatch.undo()
        assert journal.records == [LINE | {"session": 1}]


def test_a_file_that_is_not_there_for_a_moment_ends_no_run(tmp_path, monkeypatch, impatient):
    answers, stat = [FileNotFoundError(), FileNotFoundError()], os.stat

    def late(path):
        if answers:
            raise answers.pop()
        return stat(path)

    with Journal(tmp_path / "journal") as journal:
        monkeypatch.setattr(os, "stat", late)
        journal.append(LINE)
        monkeypatch.undo()
    assert answers == []


def test_a_file_that_has_got_another_number_ends_no_run(tmp_path, monkeypatch):
    with Journal(tmp_path / "journal") as journal:
        monkeypatch.setattr(os.path, "samestat", lambda first, other: False)
        journal.append(LINE)
        monkeypatch.undo()


def stale_once(monkeypatch):
    """Let the next call of fsync say what a file server says that was started anew."""
    errors, fsync = [OSError(errno.ESTALE, os.strerror(errno.ESTALE))], os.fsync

    def stale(descriptor):
        if errors:
            raise errors.pop()
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", stale)


def test_a_stale_handle_is_opened_again(tmp_path, monkeypatch):
    path = tmp_path / "journal"
    write(path, RECORDS)
    with Journal(path) as journal:
        stale_once(monkeypatch)
        journal.append(LINE)
        with pytest.raises(InputError, match="another process"):
            Journal(path)
        journal.append(LINE)
    with Journal(path) as journal:
        assert journal.records == [*RECORDS, *2 * [LINE | {"session": 2}]]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_stale_handle_of_a_folder_that_is_gone_is_said(
    replaced,
    tmp_path,
    monkeypatch,
    impatient,
):
    folder = tmp_path / "run"
    folder.mkdir()
    with Journal(folder / "journal") as journal:
        journal.append(RECORDS[0])
        delete(folder)
        if replaced:
            folder.mkdir()
            write(folder / "journal", RECORDS[1:])
        stale_once(monkeypatch)
        with pytest.raises(FolderLost):
            journal.append(LINE)
    if replaced:
        with Journal(folder / "journal") as other:
            assert other.records == RECORDS[1:]
