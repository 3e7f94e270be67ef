"""A run from Python: its answer, its tables, its figures and its page."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.commands import job_of
from pipelines.errors import InputError
from pipelines.run_folder import names

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.run_folder.record import Record


@dataclass(frozen=True)
class RunFigure:
    """A figure of a run, which a notebook shows.

    Attributes
    ----------
    path : Path of its SVG; beside it lies a PNG
    """

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_svg_(self) -> str:
        return self.path.read_text(encoding="utf-8")


class Run:
    """A run of a command, and what it left in its folder.

    Each command returns one from Python; ``Run(path)`` opens the folder of an earlier run. The
    files are read when they are asked for. ``run / "members.csv"`` is the path of a file.

    Parameters
    ----------
    path : str or path
        The run's folder.

    Raises
    ------
    InputError
        From all but ``path``: the folder has no run, as after a dry run, or a file is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _read(self) -> tuple[dict[str, Any], Record, Any]:
        """Return ``run.json``, the same by its schema, and the job of its command, if there is."""
        from pipelines.run_folder.record import Record, read_record

        metadata, record = read_record(self.path, Record)
        if (job := job_of(record.command)) is not None:
            metadata, record = read_record(self.path, job.record)
        return metadata, record, job

    @property
    def record(self) -> Mapping[str, Any]:
        """The content of ``run.json``: options, versions, times, and the answer."""
        return self._read()[0]

    @property
    def best(self) -> dict[str, Any] | None:
        """The best candidate with its mean score; None where a command chooses none."""
        return self.record.get("best")

    @property
    def test_error(self) -> float | None:
        """Share of wrong answers on the test set, of an ensemble those of its vote.

        None where there is none, as of a regression or a graph.
        """
        record = self.record
        error: float | None = record.get("test_error", record.get("vote_test_error"))
        return error

    @property
    def cv_results(self) -> pd.DataFrame:
        """A row for each cell, that is, a candidate on a fold; of ``data_parallel`` each epoch."""
        import pandas as pd

        from pipelines.run_folder.digests import refuse_changed

        _, record, job = self._read()
        name = names.CELLS if job is None else job.cells_file
        if not (self.path / name).is_file():
            raise InputError(f"cv_results needs a run that left {name}, got {self.path}")
        refuse_changed(self.path, record.files, name)
        return pd.read_parquet(self.path / name)

    @property
    def figures(self) -> dict[str, RunFigure]:
        """The figures by name; a notebook shows one that ends a cell."""
        return {path.stem: RunFigure(path) for path in sorted(self.path.glob("*.svg"))}

    @property
    def model(self) -> Any:
        """The fitted model, which takes rows as the run read them; None of a command without one.

        Of ``svm_grid`` a ``KernelMachine`` or ``KernelRegressor``, of ``cross_validate`` a
        ``FittedEstimator``, of ``nn_bagging`` a fitted ``BaggedNets``, or
        ``BaggedNetsRegressor`` of numbers; where its networks are your own, their ``of_run`` takes
        them.
        """
        from pipelines.run.predict import load_model

        return load_model(self.path)

    @property
    def page(self) -> Path:
        """The path of the page with the answer and all figures."""
        return self.path / names.REPORT

    def open(self) -> bool:
        """Show the page in a browser; return whether there is one."""
        if not self.page.is_file():
            raise InputError(f"{self.path} has no {names.REPORT}; finish the run first")
        return webbrowser.open(self.page.resolve().as_uri())

    def _repr_html_(self) -> str:
        from pipelines.report.page import read_run

        if not (self.path / names.RECORD).is_file():
            return f"<code>{escape(repr(self))}</code>"
        report = read_run(self.path)
        cards = "".join(
            '<div style="border:1px solid #8888;border-radius:6px;padding:.4em .8em">'
            f"<small>{escape(card.label)}</small><br><b>{escape(card.value)}</b><br>"
            f"<small>{escape(card.note)}</small></div>"
            for card in report.cards()
        )
        link = f'<a href="{escape(os.path.relpath(self.page))}">{escape(str(self.page))}</a>'
        return (
            f"<p>{escape(report.conclusion() or report.state())}</p>"
            f'<div style="display:flex;flex-wrap:wrap;gap:.6em">{cards}</div><p>{link}</p>'
        )
