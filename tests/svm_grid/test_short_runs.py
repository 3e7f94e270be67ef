"""A run of seconds: threads of this process, and nothing imported that it does not need."""

from __future__ import annotations

import json
import subprocess
import sys

import pandas as pd
import pytest
from sklearn.datasets import load_wine

from pipelines.svm_grid import main
from tests.command_runs import cells, record

SMALL = ["--limit", "300", "--n-c", "3", "--n-gamma", "3", "--folds", "3"]
# Each takes as long to import as the search itself, or longer.
HEAVY = ["bokeh", "dask.dataframe", "matplotlib", "pandas", "scipy.stats", "sklearn", "torch"]

SPY = """
import json, sys
from pipelines import report, svm_grid
from pipelines.run.lifecycle import Session

heavy, seen = sys.argv[1].split(), {}

def noting(name, function):
    def noted(*arguments, **named):
        seen[name] = [module for module in heavy if module in sys.modules]
        return function(*arguments, **named)
    return noted

Session.begin = noting("before the fits", Session.begin)
Session.finish = noting("at the answer", Session.finish)
report.write_report = noting("before the report", report.write_report)
assert svm_grid.main(sys.argv[2:]) == 0
seen["at the end"] = [module for module in heavy if module in sys.modules]
print(json.dumps(seen))
"""


def imported(folder, *options):
    """What of ``HEAVY`` a launcher has imported, by when."""
    words = [*SMALL, "--results", str(folder), "--quiet", *options]
    done = subprocess.run(
        [sys.executable, "-c", SPY, " ".join(HEAVY), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_what_is_imported_when(tmp_path):
    assert imported(tmp_path / "run") == {
        "before the fits": [],
        "at the answer": ["pandas"],
        "before the report": ["pandas"],
        "at the end": ["matplotlib", "pandas", "scipy.stats", "sklearn"],  # for the curves
    }


@pytest.mark.slow
def test_a_table_needs_no_torch(tmp_path):
    load_wine(as_frame=True).frame.to_csv(tmp_path / "wine.csv", index=False)
    words = ["--dataset", str(tmp_path / "wine.csv"), "--target", "target"]
    at_the_end = imported(tmp_path / "run", *words)["at the end"]
    assert at_the_end == ["matplotlib", "pandas", "scipy.stats", "sklearn"]


@pytest.mark.slow
def test_a_launcher_leaves_the_solver_to_its_workers(tmp_path):
    where = ["--cluster", "local", "--workers", "1", "--dashboard", "off"]
    program = imported(tmp_path / "run", "--solver", "sklearn", *where)
    assert program["before the report"] == ["pandas"]


def test_a_short_run_is_on_threads_of_this_process(tmp_path):
    assert main([*SMALL, "--results", str(tmp_path / "run"), "--quiet"]) == 0
    cluster = record(tmp_path / "run")["cluster"]
    assert (cluster["kind"], cluster["n_workers"]) == ("threads", 1)
    assert cluster["dashboard"] is None


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ([], "threads"),
        (["--n-c", "200", "--n-gamma", "200"], "local"),  # long
        (["--solver", "sklearn"], "local"),  # which does not fill the cores from one process
        (["--workers", "2"], "local"),
        (["--dashboard", "0"], "local"),
        (["--performance-report"], "local"),
        (["--cluster", "local"], "local"),
    ],
)
def test_more_than_a_short_run_has_processes(options, kind, capfd):
    assert main(["--dry-run", *options]) == 0
    assert f"this run would use cluster {kind}" in capfd.readouterr().out


def test_both_give_the_same(tmp_path, finished):
    """Margins but for their last digits, as BLAS sums in another order on more threads."""
    reference, here = finished[0], tmp_path / "run"
    options = record(reference)["argv"][3:]
    words = [*options[: options.index("--cluster")], "--results", str(here), "--quiet"]
    assert main(words) == 0
    pd.testing.assert_frame_equal(cells(here), cells(reference), check_exact=True)
    for name in ("candidates.parquet", "test_predictions.parquet"):
        tables = (pd.read_parquet(folder / name) for folder in (here, reference))
        pd.testing.assert_frame_equal(*tables, rtol=1e-9)


def test_a_refit_that_fails_stops_the_run(tmp_path, monkeypatch, capsys):
    def refit(*problem, **settings):
        raise ValueError("no such C")

    monkeypatch.setattr("pipelines.svm_grid.refit_and_test_svm", refit)
    words = [*SMALL, "--cluster", "threads", "--results", str(tmp_path / "run"), "--quiet"]
    assert main(words) == 1
    output = capsys.readouterr().err
    assert (
        "svm-grid: the best candidate cannot be fitted on all rows: ValueError: no such C" in output
    )
