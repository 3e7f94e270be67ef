"""How the tests of a parallel run are dealt to its processes."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

# What takes longest comes first, so that what is short is left for the end, when all processes are
# to end together.
FIRST = (
    "tests/chaos/",
    "tests/integration/test_slurm.py",
    "tests/test_docs.py",
    "tests/report/",
    "tests/nn_bagging/",
    "tests/test_interruption.py",
    "tests/svm_grid/",
    "tests/cross_validate/",
    "tests/benchmarks/test_gpu_check.py",
    "tests/data_parallel/test_command.py",
    "tests/graph/test_distributed.py",
    "tests/integration/",
    "tests/run_folder/",
    "tests/test_notebooks.py",
)
# Their files share runs: one process has them all.
SHARING = ("tests/nn_bagging/", "tests/svm_grid/", "tests/cross_validate/", "tests/report/")


def position_of(test):
    """Where in the order a test comes, by its name: the path of its file, and more."""
    return next((i for i, start in enumerate(FIRST) if test.startswith(start)), len(FIRST))


# The tests of these share nothing: any process has the next.
APART = ("tests/test_notebooks.py::test_a_notebook_runs",)


class Dealing(LoadFileScheduling):
    """A file at a time, or a folder whose files share runs, or a test that shares nothing."""

    def _split_scope(self, nodeid):
        if nodeid.startswith(APART):
            return nodeid
        folder = next((start for start in SHARING if nodeid.startswith(start)), None)
        return folder or super()._split_scope(nodeid)
