"""The interface of a logger of runs: three methods, for MLflow or any other tracker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pipelines.run_folder.rows import Metric
from pipelines.run_folder.schema import Scalar

__all__ = ["CandidateLog", "Metric", "RunEnd", "RunLogger", "RunStart"]

Parameters = Mapping[str, bool | int | float | str]
Status = Literal["finished", "failed", "killed"]


@dataclass(frozen=True)
class RunStart:
    """What is known of a run before its first task.

    Attributes
    ----------
    name : str
        The name of the run folder.
    command : str
        As it is typed: ``svm-grid``.
    folder : Path
    parameters : mapping of name to value
        Options that decide results or differ from their default, the data, versions; nothing that
        is secret.
    tags : mapping of str to str
        Further descriptions of the run: commit, host, folder.
    data : (str, str)
        The name of the data, and the fingerprint of their content.
    state : mapping of str to scalar
        What ``begin`` returned in an earlier session of this run; empty in the first.
    """

    name: str
    command: str
    folder: Path
    parameters: Parameters
    tags: Mapping[str, str]
    data: tuple[str, str]
    state: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class CandidateLog:
    """A candidate of a search: its hyper-parameters, and its scores by fold.

    Attributes
    ----------
    name : str
    parameters : mapping of name to value
    metrics : sequence of Metric
        Scores of single folds; the fold is the step.
    means : mapping of str to float
        Means over the folds; empty if a fit failed.
    """

    name: str
    parameters: Parameters
    metrics: Sequence[Metric]
    means: Mapping[str, float]


@dataclass(frozen=True)
class RunEnd:
    """What is known of a run at the end of a session.

    Attributes
    ----------
    status : {"finished", "killed", "failed"}
        ``killed`` if the user stopped the run, ``failed`` for any other early end.
    metrics : mapping of str to float
        Finite numbers of ``run.json``, such as ``best_cv_score`` and ``test_error``.
    parameters : mapping of name to value
        Those of the best candidate, such as ``best_C``.
    artifacts : mapping of str to sequence of Path
        Files by the folder in which they belong: ``figures``, ``model``, and ``""`` for the page
        and ``run.json``.
    conclusion : str
        The answer in a sentence; empty if there is none.
    candidates : sequence of CandidateLog
        Those of a finished search, if they were asked for.
    """

    status: Status
    metrics: Mapping[str, float]
    parameters: Parameters
    artifacts: Mapping[str, Sequence[Path]]
    conclusion: str = ""
    candidates: Sequence[CandidateLog] = ()


class RunLogger(ABC):
    """Logs one run to a tracker.

    A logger is made on the main thread, before data are read. All later calls come from one other
    thread, in this order: ``begin`` once, ``log`` any number of times, ``finish`` once. They may
    take their time, as the run waits for them only at its end. They may raise any error: the run
    prints it in one line, and goes on. Metrics with which ``log`` failed are passed to it again.

    Parameters
    ----------
    target : str
        What follows the name in ``--log-to NAME:TARGET``; empty for none.

    Raises
    ------
    InputError
        The run cannot be logged: a package is missing, a server does not answer, the target is
        wrong. Nothing was begun. A dry run makes the logger, too, so nothing may be written here.
    """

    def __init__(self, target: str = "") -> None:
        self.target = target

    @abstractmethod
    def begin(self, start: RunStart) -> Mapping[str, Scalar]:
        """Begin a run, or go on with that of ``start.state``.

        Returns
        -------
        mapping of str to scalar
            The state that a later session needs to go on, kept in ``run.json``; nothing secret.
            Its entry ``where`` is printed on the terminal. If the other entries differ from those
            in ``start.state``, all rows are logged anew.
        """

    @abstractmethod
    def log(self, metrics: Sequence[Metric]) -> None:
        """Log new metrics, those of a few seconds at once.

        After a run was killed and resumed, a metric may come a second time, with the same step,
        value and time.
        """

    @abstractmethod
    def finish(self, end: RunEnd) -> None:
        """Log the answer and the files, and end the run; also called if the run stops early."""
