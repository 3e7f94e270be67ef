"""The page of a run of ``svm_grid``, of classes and of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from pipelines.report.base import (
    Column,
    Report,
    as_good_card,
    candidates_section,
    candidates_table,
)
from pipelines.report.charts import (
    Panel,
    Sample,
    Series,
    heat_map,
    how_to_read,
    samples_chart,
    series_chart,
)
from pipelines.report.classification import test_section
from pipelines.report.parts import (
    Card,
    Chart,
    Columns,
    Folded,
    Part,
    Section,
    Table,
)
from pipelines.report.style import BLUE, VERMILLION
from pipelines.report.wording import percent, significant
from pipelines.run_folder import ranking
from pipelines.run_folder.columns import SVM_CANDIDATE, SVM_CELL, SvmCandidate
from pipelines.run_folder.measures import Measure, measure_of
from pipelines.run_folder.reading import read_run
from pipelines.run_folder.records.svm_grid import BestOfSvm, SvmRecord
from pipelines.run_folder.statistics import (
    WithinOneStandardError,
    on_grid_boundary,
    scores,
    widen,
    within_one_standard_error,
)

MOST_PANELS = 24  # gammas with a panel of their own; the table of the candidates has all


@dataclass(frozen=True)
class SvmReport(Report[SvmRecord]):
    """A search of C and gamma, of numbers of epsilon too: ``candidates`` are best first."""

    title = "SVM grid search"
    parameters: ClassVar[Sequence[str]] = SVM_CANDIDATE
    place: ClassVar[Sequence[str]] = SVM_CELL
    sizes: ClassVar[Sequence[str]] = ("n_c", "n_gamma", "folds")
    is_regression: ClassVar[bool] = False
    own_scoring: ClassVar[str | None] = None  # of a run that names none

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the folder of a run of ``svm_grid``; raises what ``read_run`` raises."""

        def candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
            if cells.empty:
                return pd.DataFrame(columns=list(SvmCandidate.columns()), dtype=float)
            accuracy = 1 - cells["error"]  # a run begun before there were scorings has errors alone
            score = cells["score"].fillna(accuracy) if "score" in cells else accuracy
            return ranking.candidates_of(cells.assign(score=score), cls.parameters, n_folds)

        run = read_run(folder, candidate=SvmCandidate, place=cls.place, candidates_of=candidates_of)
        best_first = run.candidates.sort_values(["rank", *SVM_CANDIDATE], kind="stable")
        return cls(**vars(run) | {"candidates": best_first.reset_index(drop=True)})

    @property
    def scoring(self) -> str | None:
        """The scoring by which the best candidate was chosen."""
        return super().scoring or self.own_scoring

    @property
    def best(self) -> BestOfSvm | None:
        """The best candidate: as the run recorded it, else rank 1 of the candidates."""
        recorded = self.record.best
        if recorded is not None and (recorded.error_mean, recorded.score_mean) != (None, None):
            return recorded
        if self.candidates.empty or math.isnan(scores(self.candidates)[0].iloc[0]):
            return None
        first = self.candidates.iloc[0].dropna().to_dict()
        found = {name: float(first[name]) for name in BestOfSvm.model_fields if name in first}
        return BestOfSvm(**found)

    @property
    def drawn(self) -> Measure:
        """What figures show: the error of classes, whatever chose the best, else the score."""
        return self.measure if self.is_regression else measure_of(None)

    def size(self) -> str:
        """Say how large the grid is."""
        options = self.record.options
        n_C, n_gamma = options.n_c, options.n_gamma
        if not self.candidates.empty and None in (n_C, n_gamma):
            n_C, n_gamma = self.candidates["C"].nunique(), self.candidates["gamma"].nunique()
        axes = {"C": n_C, "gamma": n_gamma}
        if self.is_regression:
            axes["epsilon"] = options.n_epsilon
        return " × ".join(f"{n} {name}" for name, n in axes.items() if n) or "A search"

    def conclusion(self) -> str:
        """Give the best candidate and its errors."""
        if self.best is None:
            return "No candidate has a score yet."
        return self.answer_with(self._words(self.best.model_dump()))

    def _words(self, candidate: Mapping[str, Any]) -> str:
        there = [name for name in self.parameters if candidate.get(name) is not None]
        return ", ".join(f"{name} = {significant(candidate[name])}" for name in there)

    def cards(self) -> list[Card]:
        """Return errors, and how many candidates are as good."""
        if (found := self._as_good) is None:
            return self.score_cards()
        mean = self.measure.text(self.measure.of(scores(pd.DataFrame([found.simplest]))[0].iloc[0]))
        simplest = f"the simplest has {self._words(found.simplest)}: {mean}"
        best_is_simplest = "the best is the simplest of all these"
        return [*self.score_cards(), *as_good_card(found, best_is_simplest, simplest)]

    def warnings(self) -> list[tuple[str, str]]:
        """Warn of a best candidate on the boundary of the grid, as the console does."""
        record = self.record
        found = on_grid_boundary(self.candidates, self.n_folds or 0)
        if record.status != "finished" or not found:
            return []
        text = (
            f"The best candidate has {' and '.join(map(str, found))} of the grid, and is better "
            "than its neighbour by more than one standard error; the optimum may lie outside it."
        )
        if not record.argv:
            return [(text, "")]
        command, n_more = widen(record.argv, self.metadata["options"], found, self.path)
        return [(f"{text} To widen it by {n_more * (self.n_folds or 1):,} fits:", command)]

    def cell_name(self, cell: Mapping[str, Any]) -> str:
        """Name a cell by its parameters and its fold."""
        return f"{self._words(cell)}, fold {cell['fold']:.0f}"

    def sections(self) -> list[Section]:
        """Return candidates, the figures of the grid, and the test samples."""
        order = f"by the mean {self.measure.name}"
        more = (
            "Candidates marked 1 SE are within one standard error of the best. Support vectors are "
            "averaged over the folds, fit times are summed, without compiling. Standard deviations "
            "on this page are over the folds and divide by their number."
        )
        if self.is_regression:
            more += (
                " Targets are standardised on the training rows of each fold: epsilon and C are in "
                "units of their standard deviation."
            )
        grid = Section("grid", "The grid", [Columns([self._of_best_gamma(), self._map()]),
                                            self._every_gamma()])  # fmt: skip
        candidates = candidates_section(self.candidates, self._table(), order, more)
        return [candidates, grid, test_section(self)]

    def _table(self) -> Table:
        table, by = self.candidates, list(self.parameters)
        table = table.assign(n_support=math.nan, fit_seconds=math.nan)
        if not (self.cells.empty or table.empty):
            cells = self.cells.astype({"n_support": "float64"}).groupby(by)
            work = cells.agg(n_support=("n_support", "mean"), fit_seconds=("fit_seconds", "sum"))
            table = table.drop(columns=list(work)).merge(work.reset_index(), on=by, how="left")
        error: Column = "cv error", lambda row: (row["error_mean"], percent(row["error_mean"]))
        return candidates_table(
            table, self.measure, self._as_good, "simplest",
            [(name, itemgetter(name)) for name in by],
            [] if self.measure.is_error or self.is_regression else [error],
            [("support vectors", lambda row: (row["n_support"], f"{row['n_support']:,.0f}")),
             ("fit time (s)", lambda row: (row["fit_seconds"], f"{row['fit_seconds']:,.2f}"))],
        )  # fmt: skip

    @property
    def _as_good(self) -> WithinOneStandardError | None:
        return within_one_standard_error(self.candidates, self.n_folds or 0, self.parameters)

    @cached_property
    def folds(self) -> pd.DataFrame:
        """The cells with what figures show of them, ``shown``, at the best epsilon."""
        cells, best = self.cells, self.best
        if self.is_regression and best is not None and best.epsilon is not None:
            cells = cells[np.isclose(cells["epsilon"].astype(float), best.epsilon)]
        shown = self.drawn.of(cells["score"]) if self.is_regression else cells["error"]
        return cells.assign(shown=shown.astype(float))

    def means(self) -> pd.DataFrame:
        """Return the mean of every gamma (rows) and C (columns), each by its best epsilon."""
        table = self.candidates
        table = table.assign(
            best=scores(table)[0] if self.is_regression else 1 - table["error_mean"]
        )
        return self.drawn.of(table.groupby(["gamma", "C"])["best"].max().unstack())

    @property
    def _chosen(self) -> str:
        """What chose the best candidate, where it is not what figures show."""
        return "" if self.drawn == self.measure else f", chosen by {self.measure.name},"

    def _map(self) -> Chart | None:
        if self.candidates.empty:
            return None
        name, best = self.drawn.name, self.best
        words, framed = "", None
        if best is not None:
            words = f"{self._words(best.model_dump())}, {self._best_text}"
            framed = best.gamma, best.C
        title = f"Mean validation {name}"
        draw = partial(heat_map, self.means(), framed, self.drawn, title, f"best: {words}")
        reads = "the darker, the better" if self.drawn.is_loss else "the brighter, the better"
        caption = (
            f"Mean validation {name} of every candidate"
            f"{' in percent' if self.drawn.is_error else ''}: {reads}. The best candidate"
            f"{self._chosen} is framed in orange."
        )
        if self.is_regression:
            caption += " Each C and gamma by its best epsilon."
        alt = f"Mean validation {name} of every C and gamma; the best is {words}."
        return Chart("heat_map", draw, alt, caption)

    @property
    def _best_text(self) -> str:
        """The mean of the best candidate as figures show it."""
        best = self.best
        if best is None:
            return ""
        value = best.error_mean if not self.is_regression else self.drawn.of(best.score_mean or 0)
        return self.drawn.text(value)

    def _of_best_gamma(self) -> Chart | None:
        best = self.best
        if best is None or self.folds.empty:
            return None
        gamma, name = significant(best.gamma), self.drawn.name
        alt = f"Validation {name} of the folds against C, at the best gamma."
        reads = how_to_read(self.n_folds or 1, "fold")
        caption = f"The folds at gamma = {gamma}: {reads}. The best C is orange."
        at_best = self.folds[np.isclose(self.folds["gamma"], best.gamma, atol=0)]
        by_C: list[tuple[Any, pd.DataFrame]] = list(at_best.sort_values("fold").groupby("C"))
        samples = [
            Sample(math.log10(C), of_C["shown"].to_numpy(), bool(np.isclose(C, best.C)))
            for C, of_C in by_C
        ]
        title = f"Folds at gamma = {gamma}"
        draw = partial(samples_chart, samples, self.drawn, title, xlabel="C")
        return Chart("fold_errors_best", draw, alt, caption)

    def _every_gamma(self) -> Part | None:
        every_gamma, name = np.unique(self.folds["gamma"]), self.drawn.name
        if len(every_gamma) < 2:
            return None
        n_shown = min(len(every_gamma), MOST_PANELS)
        shown = np.unique(np.linspace(0, len(every_gamma) - 1, n_shown).round().astype(int))
        best = -1
        if self.best is not None:
            best = int(np.abs(np.log(every_gamma / self.best.gamma)).argmin())
            shown[np.abs(shown - best).argmin()] = best  # at equal steps, but the best among them
        panels = []
        for i in shown:
            of_C = self.folds[self.folds["gamma"] == every_gamma[i]].groupby("C")["shown"]
            mean, std = of_C.mean(), of_C.std(ddof=0)
            look = {"color": VERMILLION if i == best else BLUE, "marker": "."}
            series = Series(mean.index, mean, band=(mean - std, mean + std), look=look)
            title = f"gamma = {significant(every_gamma[i])}{' (best)' if i == best else ''}"
            scales = "log", "percent" if self.drawn.is_error else "linear"
            panels.append(Panel([series], "C", f"validation {name}", title, scales))
        of = "" if n_shown == len(every_gamma) else f" of {n_shown} among {len(every_gamma)}"
        alt = f"Mean validation {name} against C, a panel for each gamma."
        caption = (
            f"Mean validation {name} over the folds, and its standard deviation, one panel for "
            "each gamma, all on the same axes."
        )
        draw = partial(series_chart, panels, f"Every gamma{of}")
        return Folded("Every gamma", [Chart("fold_errors", draw, alt, caption, wide=True)])


@dataclass(frozen=True)
class SvmRegressionReport(SvmReport):
    """A search of C, gamma and epsilon, on a target of numbers."""

    title = "SVM regression grid search"
    parameters = (*SVM_CANDIDATE, "epsilon")
    place = (*parameters, "fold")
    sizes = ("n_c", "n_gamma", "n_epsilon", "folds")
    is_regression = True
    own_scoring = "r2"
