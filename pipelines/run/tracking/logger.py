"""What a logger of runs is: three methods, with MLflow or another tracker behind them."""

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
    name : of its folder
    command : as it is typed: ``svm-grid``
    folder : Path
    parameters : options that decide results or differ from their default, the data, versions;
        nothing that is secret
    tags : what describes the run beside them: commit, host, folder
    data : its name, and the fingerprint of its content
    state : what ``begin`` gave in an earlier session of this run; empty in the first
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
    metrics : by fold, which is their step
    means : over the folds; empty where a fit failed
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
    status : ``finished``; ``killed`` on request; ``failed`` for any other reason
    metrics : of ``run.json``, such as ``best_cv_score`` and ``test_error``; finite
    parameters : of the best candidate, ``best_C``
    artifacts : files by the folder in which they belong: ``figures``, ``model``, and ``""`` for
        the page and ``run.json``
    conclusion : the answer in a sentence; empty where there is none
    candidates : of a finished search, where they were asked for
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
    take their time, as the run does not wait for them but at its beginning and end, and may raise
    any error: the run says it in one line, and goes on. What ``log`` did not take is given to it
    again.

    Parameters
    ----------
    target : str
        What stands behind the name in ``--log-to NAME:TARGET``; empty for none.

    Raises
    ------
    InputError
        The run cannot be logged: a package is missing, a server does not answer, the target is
        wrong. Nothing was begun; a dry run asks for no more than this, so nothing may be written.
    """

    def __init__(self, target: str = "") -> None:
        self.target = target

    @abstractmethod
    def begin(self, start: RunStart) -> Mapping[str, Scalar]:
        """Begin a run, or go on with that of ``start.state``.

        Returns
        -------
        what ``run.json`` keeps, for a later session to go on; nothing secret. Its entry ``where``
        is said on the terminal. Where the others are not those of ``start.state``, all rows are
        logged anew.
        """

    @abstractmethod
    def log(self, metrics: Sequence[Metric]) -> None:
        """Log what is new, all of a few seconds at once.

        A metric may come a second time, with the same step, value and time, in a run that was
        killed and resumed.
        """

    @abstractmethod
    def finish(self, end: RunEnd) -> None:
        """Log the answer and the files, and end the run; called for a run that stops early, too."""
