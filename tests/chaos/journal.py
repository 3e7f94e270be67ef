"""A journal that ends in the middle of a record, as a machine without power leaves it.

Or that holds records of another run, which a copy of folders leaves.
"""

from __future__ import annotations

import json
import shutil

from tests.chaos.checks import must_equal, must_keep
from tests.chaos.program import Program


def disturb(workload, truth, folder, rng, number):
    """Cut the journal of a run within a record, the first or any other; resume the run.

    Every second time the rest of the record is there as zeros: some file systems give
    a file its length before its content. Every third time records stand before it that are
    of tasks to come, of another run and wrong.

    Raises
    ------
    Broken
        A whole record was lost, or the run does not end as the other.
    """
    lines = (truth / "journal.jsonl").read_bytes().splitlines(keepends=True)
    n_whole = int(rng.integers(0, len(lines)))
    last = lines[n_whole]
    cut = int(rng.integers(1, len(last)))
    zeros = b"\0" * (len(last) - cut) if number % 2 else b""
    copy_as_killed(truth, folder)
    before = b"".join(lines[:n_whole])
    foreign = [_of_another_run(line) for line in lines[n_whole:]] if number % 3 == 2 else []
    (folder / "journal.jsonl").write_bytes(b"".join([*foreign, before, last[:cut], zeros]))
    program = Program(workload.resume(folder), folder)
    program.must_end_well()
    must_keep(b"".join([*foreign, before]), folder)
    must_equal(workload, folder, truth)
    with_zeros = ", zeros after them" if zeros else ""
    foreign_text = f"{len(foreign)} records of another run, " if foreign else ""
    return [
        f"{foreign_text}{n_whole} records and {cut} of {len(last)} bytes of the next{with_zeros}"
    ]


def _of_another_run(line):
    record = json.loads(line)
    for row in record["rows"]:
        row["n_errors"] = 0
    return json.dumps(record | {"run": "0" * 64}).encode() + b"\n"


def copy_as_killed(truth, folder):
    """A copy of a run as a launcher that was killed leaves it: no answer, no pages."""
    folder.mkdir()
    for name in ("run.json", "members"):
        source = truth / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        elif source.exists():
            shutil.copy(source, folder / name)
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"status": "running"}))
