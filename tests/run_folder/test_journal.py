from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import InputError
from pipelines.run_folder.journal import Journal

PLACE = {"worker": "w", "started": 1.5, "seconds": 0.5}
RECORDS = [
    {"task": f"u{i}", **PLACE, "session": 1, "rows": [{"C": 10.0**i, "error": 1 / (i + 3)}]}
    for i in range(5)
]


def write(path: Path, records: list[dict[str, object]]) -> bytes:
    with Journal(path) as journal:
        for record in records:
            journal.append(record)
    return path.read_bytes()


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    write(tmp_path / "journal", RECORDS)
    with Journal(tmp_path / "journal") as journal:
        assert journal.records == RECORDS


@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_journal_cut_anywhere_keeps_every_whole_record(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
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


@given(place=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7))
def test_a_flipped_bit_costs_at_most_two_records(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    path = tmp_path_factory.mktemp("flipped") / "journal"
    content = bytearray(write(path, RECORDS))
    content[place % len(content)] ^= 1 << bit
    path.write_bytes(content)
    with Journal(path) as journal:
        for record in journal.records:  # the name of the checksum may be what was flipped
            assert any(was.items() <= record.items() for was in RECORDS)
        assert len(journal.records) >= len(RECORDS) - 2  # a line end that is none joins two


def test_a_damaged_line_costs_its_own_record(tmp_path: Path) -> None:
    lines = write(tmp_path / "journal", RECORDS).splitlines(keepends=True)
    lines[1], lines[3] = b"garbage\n", b'{"rows": 3}\n'
    (tmp_path / "journal").write_bytes(b"".join(lines))
    with Journal(tmp_path / "journal") as journal:
        assert journal.records == [RECORDS[0], RECORDS[2], RECORDS[4]]


def test_a_record_that_does_not_fit_the_disk_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    before = write(path, RECORDS)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Journal(path) as journal:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            journal.append({"task": "too much"})
    assert path.read_bytes() == before


def test_two_runs_cannot_write_one_journal(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal"), pytest.raises(InputError, match="another process"):
        Journal(tmp_path / "journal")
