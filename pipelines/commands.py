"""The list of commands. A command is imported only when it is needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple


class Command(NamedTuple):
    """Module of a command, and what the command does, in a sentence for the list of commands."""

    module: str
    sentence: str


COMMANDS = {
    "svm_grid": Command(
        "pipelines.svm_grid", "C and gamma of a kernel SVM by cross-validation on a grid"
    ),
    "nn_bagging": Command(
        "pipelines.nn_bagging",
        "an ensemble of neural networks that votes and says when not to trust it",
    ),
    "cross_validate": Command(
        "pipelines.cross_validate", "any estimators of scikit-learn's kind, compared"
    ),
    "pagerank": Command("pipelines.pagerank", "PageRank of a graph"),
    "data_parallel": Command(
        "pipelines.data_parallel", "one network trained by many workers at once"
    ),
    "accelerate": Command(
        "pipelines.accelerate", "a script in which scikit-learn's searches share their work"
    ),
    "warm_up": Command(
        "pipelines.warm_up", "compile beforehand what runs compile at first use, and keep it"
    ),
    "runs": Command("pipelines.runs", "a table of the runs in a folder, sorted and filtered"),
    "export": Command(
        "pipelines.export.__main__", "the model of a run as ONNX, scikit-learn or safetensors"
    ),
    "report": Command("pipelines.report.__main__", "redraw the pages of runs, or compare runs"),
}


def typed_names() -> list[str]:
    """Names of all commands as they are typed: ``svm-grid``."""
    return [name.replace("_", "-") for name in COMMANDS]


def job_of(name: str) -> Any:
    """The ``Job`` class of a command; None for a command that makes no runs, or does not exist."""
    command = COMMANDS.get(name)
    return None if command is None else getattr(import_module(command.module), "JOB", None)
