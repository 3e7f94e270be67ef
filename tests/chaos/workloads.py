"""What is disturbed: small runs of many tasks, and how each ends when nobody disturbs it."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tests.chaos.program import Program

ON_TWO_WORKERS = ("--cluster", "local", "--workers", "2", "--dashboard", "off")


@dataclass(frozen=True)
class Workload:
    """A command with its options.

    Attributes
    ----------
    command : str
        ``python -m pipelines.COMMAND``.
    options : tuple of str
    n_tasks : int
        Records in the journal of a whole run.
    answers : tuple of str
        Keys of ``run.json`` that must come out the same.
    files : tuple of str
        Patterns of files that must come out the same.
    asks_ahead : bool
        Whether workers that would idle do tasks that may not be wanted: then there may be more.
    """

    command: str
    options: tuple[str, ...]
    n_tasks: int
    answers: tuple[str, ...]
    files: tuple[str, ...]
    asks_ahead: bool = False

    def begin(self, folder, where=ON_TWO_WORKERS):
        """The command line of a new run; ``where``: options of the cluster."""
        return [*self._python, *self.options, *where, "--results", str(folder)]

    def resume(self, folder, where=ON_TWO_WORKERS):
        """The command line that goes on with a run."""
        return [*self._python, "--resume", str(folder), *where]

    @property
    def _python(self):
        return [sys.executable, "-m", f"pipelines.{self.command}"]


# A solver that shares nothing: each cell is a task, so that there are many to disturb.
SVM = Workload(
    "svm_grid",
    ("--limit", "300", "--n-c", "5", "--n-gamma", "4", "--solver", "sklearn"),
    100,
    ("best", "test_error", "n_test_errors", "n_support", "n_cells", "n_failed"),
    ("*.safetensors", "test_predictions.parquet", "candidates.parquet"),
)

# What is tried depends on what came before, and workers that would idle are ahead of it.
RACE = Workload(
    "svm_grid",
    (*SVM.options, "--folds", "10", "--strategy", "race"),
    108,
    SVM.answers,
    SVM.files,
    asks_ahead=True,
)

# Candidates are drawn by the scores of those before, and travel with their tasks.
TPE = Workload(
    "svm_grid",
    ("--limit", "300", "--solver", "sklearn", "--strategy", "tpe", "--n-iter", "20"),
    100,
    SVM.answers,
    SVM.files,
)

# Tasks that need others: a member waits for the candidates of its own search.
BAGGING = Workload(
    "nn_bagging",
    (
        "--limit",
        "300",
        "--n-bootstrap",
        "3",
        "--n-tuning",
        "4",
        "--folds",
        "3",
        "--max-epochs",
        "4",
    ),
    15,
    ("test_error", "n_test_errors", "members", "n_cells", "n_failed"),
    ("members/*", "member_probabilities.npz", "test_predictions.parquet"),
)


def undisturbed(workload, folder):
    """Carry out a run that nobody disturbs; give its seconds, from its start to its end."""
    program = Program(workload.begin(folder), folder)
    program.wait()
    program.must_end_well()
    return program.seconds


def pick(workloads, number):
    """The workload of a run: mostly the first, every fourth run the last."""
    return workloads[-1] if number % 4 == 3 else workloads[0]
