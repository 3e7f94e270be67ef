"""Runs of a command as a person starts them, and what they leave."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
from importlib import import_module

import pandas as pd

SMALL = {
    "svm_grid": "--limit 400 --n-c 3 --n-gamma 3 --log-gamma -6 -2 --folds 3 --cluster local",
    "cross_validate": "--limit 300 --folds 3 --cluster local --estimator knn --param "
    "n_neighbors=1,3,5 --estimator forest --param n_estimators=5,10 max_depth=3,none",
    "nn_bagging": "--limit 300 --n-bootstrap 3 --n-tuning 2 --folds 3 --max-epochs 4 "
    "--cluster local",
}
# Many tasks, to disturb a run in their midst: fits that share nothing.
LONGER = {
    "svm_grid": "--limit 500 --n-c 5 --n-gamma 4 --cluster local --dashboard off --solver sklearn",
    "cross_validate": "--limit 500 --folds 4 --cluster local --dashboard off --estimator tree "
    "--param max_depth=1,2,3,4,5,6,7,8,9,10 splitter=best,random --estimator knn",
    "nn_bagging": "--limit 500 --n-bootstrap 4 --n-tuning 3 --folds 3 --batch-size 4 "
    "--max-epochs 6 --cluster local --dashboard off",
}
SMALL, LONGER = (
    {name: text.split() for name, text in options.items()} for options in (SMALL, LONGER)
)

# Options after theirs, for runs whose workers do not matter.
ON_THREADS = ["--cluster", "threads"]


def command_line(command, *options):
    """``python -m pipelines.COMMAND`` with this Python."""
    return [sys.executable, "-m", f"pipelines.{command}", *options]


def start(command, *options):
    """The command, in a session of its own."""
    return subprocess.Popen(
        command_line(command, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def said_by(command, *options):
    """What a command says on stdout that is carried out in this process, without a complaint."""
    main = import_module(f"pipelines.{command}").main
    output, complaints = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(complaints):
        status = main([*options])
    assert (status, complaints.getvalue()) == (0, "")
    return output.getvalue()


def finished_run(command, folder, *options):
    """A small run in this process, and what it said."""
    return folder, said_by(command, *SMALL[command], *options, "--results", str(folder))


def run_as_a_process(command, folder, *options):
    """A small run as a person starts it, and what it said."""
    words = command_line(command, *SMALL[command], *options, "--results", str(folder))
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return folder, done.stdout


def undisturbed_run(command, folder, *options):
    """A longer run in this process."""
    main = import_module(f"pipelines.{command}").main
    words = [*LONGER[command], "--results", str(folder), "--quiet", *options]
    assert main(words) == 0
    return folder


def wait_for_tasks(folder, n_tasks, program):
    """Wait until so many tasks are in the journal of a run that goes on."""
    journal = folder / "journal.jsonl"
    while not journal.exists() or journal.read_bytes().count(b"\n") < n_tasks:
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)


def tasks_of(folder):
    """The lines of a journal, without checksums: a test that changes one signs nothing."""
    lines = (folder / "journal.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if name != "crc32"}
        for line in lines
    ]


def summary(output, n_lines):
    """The last lines of a run's output but for the phase that a busy machine names."""
    return [line for line in output.splitlines() if not line.startswith("page ")][-n_lines:]


def record(folder):
    """The content of ``run.json``."""
    return json.loads((folder / "run.json").read_text())


def cells(folder):
    """The table of a run, less what says where and how fast."""
    table = pd.read_parquet(folder / "cv_results.parquet")
    return table.drop(columns=["fit_seconds", "score_seconds", "worker"])
