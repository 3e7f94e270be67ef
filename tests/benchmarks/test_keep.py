"""What is kept of a result."""

import json
import platform

from benchmarks.keep import keep, markdown_table
from benchmarks.machine import describe_machine, in_words


def test_a_result_is_kept_as_figures_and_as_a_page(tmp_path):
    record = {"date": "2026-01-02", "seconds": 1.5}
    path = keep(tmp_path / "new" / "folder", "what", record, "# A page\n")
    assert path.name == "2026-01-02-what.md"
    assert path.read_text() == "# A page\n"
    assert json.loads(path.with_suffix(".json").read_text()) == record


def test_columns_of_a_table_are_of_equal_width():
    assert markdown_table(("a", "long"), [("x | y", "1")]).splitlines() == [
        "| a     | long |",
        "|-------|------|",
        "| x / y | 1    |",
    ]


def test_a_machine_is_described_without_its_name():
    machine = describe_machine()
    assert machine["cores"] >= 1
    assert machine["cpu"]
    assert machine["python"] == platform.python_version()
    assert platform.node() not in json.dumps(machine)
    assert f"{machine['cores']} cores" in in_words(machine)
