"""A run from Python: its answer, its tables, its figures and its page."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pipelines.commands import job_of
from pipelines.errors import InputError, error_line, nearest
from pipelines.run.answer import answer_lines, metrics_of
from pipelines.run.options import python_options
from pipelines.run_folder import names

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.run_folder.record import Record


@dataclass(frozen=True)
class RunFigure:
    """A figure of a run; notebooks show it.

    Attributes
    ----------
    path : Path
        Of the SVG; a PNG of the same name lies beside it.
    """

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_svg_(self) -> str:
        return self.path.read_text(encoding="utf-8")


class NoSuchFigure(InputError, KeyError):
    """A run has no figure of that name."""

    __str__ = InputError.__str__


class Figures(dict[str, RunFigure]):
    """Figures by name."""

    def __missing__(self, name: str) -> RunFigure:
        figure_names = ", ".join(self) or "none"
        raise NoSuchFigure(
            f"figures has no {name!r}; {nearest(str(name), self, f'it has {figure_names}')}"
        )


class Run:
    """A run of a command, and the files in its folder.

    Each command returns one from Python; ``Run(path)`` opens the folder of an earlier run. Files
    are read when they are asked for. ``run / "members.csv"`` is the path of a file, and the
    ``repr`` says what was run, on which data, and the answer.

    Parameters
    ----------
    path : str or path
        The folder of the run.

    Raises
    ------
    InputError
        The folder is not that of a run. Properties that read a file raise it if the file is
        damaged, or if nothing was run, as after ``dry_run=True``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from pipelines import Run, cross_validate
    >>> with TemporaryDirectory() as folder:
    ...     run = cross_validate.run(
    ...         limit=100,
    ...         estimator="knn",
    ...         param="knn:n_neighbors=1,5",
    ...         cluster="threads",
    ...         quiet=True,  # prints the folder alone
    ...         results=f"{folder}/run",
    ...     )
    ...     earlier = Run(run.path)
    ...     print(earlier.best["parameters"], f"{earlier.metrics['cv_error']:.2f}")
    ...     print(len(earlier.candidates))  # doctest: +ELLIPSIS
    /.../run
    {'n_neighbors': 5} 0.10
    2
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from pipelines.run_folder.record import Record, read_record

        self.path = Path(path)
        read_record(self.path, Record, "path")

    @classmethod
    def planned(cls, path: str | os.PathLike[str]) -> Self:
        """A run that was only planned, by a dry run: its folder does not exist or holds no run."""
        run = cls.__new__(cls)
        run.path = Path(path)
        return run

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __repr__(self) -> str:
        name = f"Run({str(self.path)!r})"
        if not (self.path / names.RECORD).is_file():
            return f"{name}: no run is there, as after a dry run"
        try:
            metadata = self._read()[0]
            lines = answer_lines(metadata)
        except (InputError, ValueError, TypeError, KeyError, AttributeError) as error:
            return f"{name}: damaged ({error_line(error)})"
        return "\n".join([name, *(f"  {label:<10} {text}" for label, text in lines)])

    def _read(self) -> tuple[dict[str, Any], Record, Any]:
        """``run.json`` as a dict and by its schema, and the job of the command, None if unknown."""
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
    def options(self) -> dict[str, Any]:
        """The options of the run, as ``run`` takes them: ``svm_grid.run(**run.options)``.

        Options on where and how the run was carried out, such as its folder and cluster, are left
        out.
        """
        record = self.record
        job = job_of(record["command"])
        recorded: dict[str, Any] = record.get("options", {})
        if job is None:
            return dict(recorded)
        return {
            field.name: recorded[field.name]
            for field in python_options(job.options_class)
            if field.name in recorded and field.metadata["changes_results"]
        }

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers of the answer by name: ``cv_error``, ``test_error``, ``baseline_cv_error``.

        Each has the name of its measure, as on pages. A scorer that scikit-learn negates has its
        usual sign, as ``cv_mean_absolute_error``; ``_std`` is a standard deviation over the folds.
        Errors are fractions, and numbers that are not known are left out.
        """
        return metrics_of(self.record)

    @property
    def best(self) -> dict[str, Any] | None:
        """The best candidate with its mean score; None if the command chooses none."""
        return self.record.get("best")

    @property
    def test_error(self) -> float | None:
        """The fraction of wrong predictions on the test set; for an ensemble, by its vote.

        None if there is none, as for a regression or a graph.
        """
        record = self.record
        error: float | None = record.get("test_error", record.get("vote_test_error"))
        return error

    @property
    def cv_results(self) -> pd.DataFrame:
        """A row for each cell, a candidate on a fold; for ``data_parallel``, for each epoch."""
        import pandas as pd

        from pipelines.run_folder.digests import refuse_changed

        _, record, job = self._read()
        name = names.CELLS if job is None else job.cells_file
        if not (self.path / name).is_file():
            raise InputError(f"cv_results needs a run that left {name}, got {self.path}")
        refuse_changed(self.path, record.files, name)
        return pd.read_parquet(self.path / name)

    @property
    def candidates(self) -> pd.DataFrame:
        """A row for each candidate with its mean scores, the best first.

        For a run that is not finished, only candidates whose cells are all there.
        """
        from pipelines.report.page import read_run

        if job_of(self.record["command"]) is None:
            raise InputError(f"candidates needs a run of a command that is known, got {self.path}")
        table: pd.DataFrame = read_run(self.path).candidates
        if table.empty:
            raise InputError(
                f"candidates needs a run that compared some, got {self.path}; finish it, or see "
                "metrics"
            )
        return table

    @property
    def predictions(self) -> pd.DataFrame:
        """A row for each test row, with the prediction and the truth."""
        from pipelines.run_folder.digests import refuse_changed
        from pipelines.run_folder.reading import read_table

        _, record, _ = self._read()
        for name in (names.PREDICTIONS, names.RESIDUALS):
            if (self.path / name).is_file():
                refuse_changed(self.path, record.files, name)
                table = read_table(self.path / name)
                assert table is not None
                return table
        raise InputError(
            f"predictions needs a finished run that predicted test rows, got {self.path}"
        )

    def predict(self, rows: Any, **code: Any) -> pd.DataFrame:
        """Predict new rows with the run's model, as the command ``predict`` does.

        Parameters
        ----------
        rows : DataFrame, array-like, str or path
            The columns of the run's table are found by name, in any order; they may be text or have
            missing cells if the run's had. An array has the columns of the table in its order. A
            path is that of a table; for a run on images, that of an image or of a folder of them.
            An array of images has their pixels, of shape (n_images, ...).
        **code
            ``network="FILE.py:NAME"`` for a run whose network is your own: it runs only if you name
            it.

        Returns
        -------
        DataFrame with a row for each of ``rows``
            ``row`` from 1, columns that the run left out as ids, ``predicted``, and what else the
            model returns, such as probabilities. What was noticed in the rows is a warning.

        Raises
        ------
        InputError
            The run has no model, or a column is missing or of another kind; one line names it.
        """
        from pipelines.run.predict import predict_frame

        return predict_frame(self.path, rows, **code)

    @property
    def figures(self) -> Mapping[str, RunFigure]:
        """The figures by name; a notebook shows a figure at the end of a cell.

        An unknown name is a ``KeyError``, whose message has the nearest name.
        """
        return Figures({path.stem: RunFigure(path) for path in sorted(self.path.glob("*.svg"))})

    @property
    def model(self) -> Any:
        """The fitted model, for rows as the run read them; None for a command without a model.

        For ``svm_grid`` it is a ``KernelMachine`` or ``KernelRegressor``, for ``cross_validate`` a
        ``FittedEstimator``, for ``nn_bagging`` a fitted ``BaggedNets``, or a
        ``BaggedNetsRegressor`` for a regression. If the networks are your own, use the ``of_run``
        of these classes, which takes them.
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
        try:
            report = read_run(self.path)
        except InputError:
            return f"<pre>{escape(repr(self))}</pre>"
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
