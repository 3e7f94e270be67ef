"""A small command, as another developer would add it: the constant that is nearest to a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipelines.data.load import load_dataset
from pipelines.report.base import Report
from pipelines.report.parts import Card
from pipelines.run.groups import OwnDataOptions, RunOptions, TestOptions
from pipelines.run.job import Job, Plan
from pipelines.run.options import number
from pipelines.run.predict import ModelAnswer, PredictOptions, load_model
from pipelines.run_folder.record import Answer, Record
from pipelines.run_folder.rows import Row


class ConstantRow(Row):
    quantile: float
    error: float | None = None
    status: str = "ok"


class ConstantAnswer(Answer):
    needed: ClassVar[tuple[str, ...]] = ("constant",)

    constant: float | None = None


class ConstantRecord(ConstantAnswer, Record):
    """``run.json`` of ``constant``."""


@dataclass(frozen=True)
class ConstantReport(Report):
    record: ConstantRecord

    title = "A constant"

    def cards(self):
        return [Card("constant", f"{self.record.constant:g}")]


@dataclass(frozen=True)
class Options(RunOptions, TestOptions, OwnDataOptions):
    group: ClassVar[str] = "constants"

    n_quantiles: int = number(5, "quantiles of the target that are tried")


@dataclass(frozen=True)
class QuantileTask:
    quantile: float
    cost: float = 1.0

    @property
    def name(self):
        return f"quantile={self.quantile:g}"


def error_of(y, task):
    error = float(np.abs(y - np.quantile(y, task.quantile)).mean())
    return [{"quantile": task.quantile, "error": error, "status": "ok"}]


@dataclass(frozen=True, eq=False, kw_only=True)
class ConstantPlan(Plan[Options]):
    @property
    def lines(self):
        return [f"constants  {self.options.n_quantiles} of {self.data.name}"]

    def tasks_for(self, kind, n_workers):
        return [QuantileTask(float(q)) for q in np.linspace(0, 1, self.options.n_quantiles)]


class Constant(Job[Options]):
    command = "constant"
    description = "The constant that is nearest to a target."
    options_class = Options
    row, record, page = ConstantRow, ConstantRecord, f"{__name__}:ConstantReport"
    predict_options_class, model_files = PredictOptions, ("constant.csv",)
    files = model_files

    def load(self, options, kind):
        return load_dataset(options.dataset, task="regression", **options.as_read())

    def plan(self, options, data, record):
        return ConstantPlan(options=options, data=data, record=record)

    def execute(self, plan, done, session, cluster):
        rows = {record["task"]: record["rows"] for record in session.journal.records}
        todo = [task for task in plan.tasks_for("", 1) if task.name not in rows]
        with session.journal_writer(cluster, todo) as writer:
            for outcome in cluster.runner.outcomes(error_of, plan.data.y_train, todo):
                writer.record(outcome, outcome.result)
                rows[outcome.task.name] = outcome.result
        return [row for task_rows in rows.values() for row in task_rows]

    def answer(self, plan, computed, session, cluster):
        best = min(computed, key=lambda row: row["error"])
        constant = float(np.quantile(plan.data.y_train, best["quantile"]))
        (session.path / "constant.csv").write_text(f"{constant!r}\n")
        return ConstantAnswer(constant=constant, n_cells=len(computed), n_failed=0)

    def summary_lines(self, record, path):
        return [f"constant   {record['constant']:g}"]

    @staticmethod
    def load_model(run):
        return float((run / "constant.csv").read_text())

    @staticmethod
    def predict_rows(rows, options):
        return ModelAnswer(None, np.full(len(rows.answered), load_model(options.run)))


JOB = Constant
main, run = JOB.main, JOB.run
