"""Page of a run of ``svm_grid``, for classification and regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from pipelines.pages.strategy import are_drawn, budget_warnings, strategy_cards
from pipelines.report.base import Report
from pipelines.report.charts import Sample, heat_map, how_to_read, samples_chart, scatter_map
from pipelines.report.classification import test_section
from pipelines.report.curves import ClassValues, curves_section
from pipelines.report.importances import importance_section
from pipelines.report.parts import Card, Chart, Section, SideBySide
from pipelines.report.wording import count, percent, significant
from pipelines.run_folder.ranking import have_all_folds, ranked_candidates
from pipelines.run_folder.record import Record
from pipelines.svm.options import LANDMARKS
from pipelines.svm_search.boundary import most_fits, on_grid_boundary, widening_command
from pipelines.svm_search.record import CANDIDATE, CELL, SvmBest, SvmRecord
from pipelines.svm_search.summary import exactness_in_words


@dataclass(frozen=True)
class SvmReport(Report):
    """A run of ``svm_grid`` for classification: a search over C and gamma."""

    title = "SVM grid search"
    key_columns: ClassVar[Sequence[str]] = CELL
    simple_by: ClassVar[Sequence[str]] = CANDIDATE
    own_scoring: ClassVar[str | None] = None  # scorer of a run that names none; None: accuracy

    record: SvmRecord

    @classmethod
    def of(cls, record: Record) -> type[Report]:
        """See ``Report``."""
        return SvmRegressionReport if record.dataset.task == "regression" else cls

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """A row for each candidate, the best first."""
        table = super().candidates
        if table.empty:
            return table
        return table.sort_values(["rank", *CANDIDATE], kind="stable", ignore_index=True)

    def candidates_of_cells(self) -> pd.DataFrame:
        """Candidates of a run that ended before it wrote their table, from its cells."""
        if self.cells.empty:
            return pd.DataFrame()
        return ranked_candidates(self.cells, self.simple_by, self.n_splits or 0)

    @property
    def scoring(self) -> str | None:
        """Name of the scorer that chose the best candidate; None for the accuracy."""
        return super().scoring or self.own_scoring

    @property
    def best(self) -> SvmBest | None:
        """The best candidate: from ``run.json`` or, for an unfinished run, the one of rank 1."""
        recorded_best = self.record.best
        if recorded_best is not None and recorded_best.score_mean is not None:
            return recorded_best
        first = self.candidates.head(1).dropna(axis=1).to_dict("records")
        if not first or "score_mean" not in first[0]:
            return None
        field_names = SvmBest.model_fields
        return SvmBest(**{str(n): value for n, value in first[0].items() if n in field_names})

    def size(self) -> str:
        """Size of the grid, or number of candidates drawn; and the number of landmarks, if any."""
        options = self.record.options
        n = (options.landmarks or LANDMARKS) if options.approximate == "nystroem" else None
        on = f" on {n:,} landmarks" if n else ""
        if are_drawn(self.record):
            drawn_how = "at random" if options.strategy == "random" else f"by {options.strategy}"
            return f"{count(len(self.candidates), 'candidate')} drawn {drawn_how}{on}"
        sizes = {
            "C": len(options.c or ()) or options.n_c,
            "gamma": len(options.gamma or ()) or options.n_gamma,
            "epsilon": len(options.epsilon or ()) or options.n_epsilon,
        }
        axis_texts = [f"{sizes[name]} {name}" for name in self.simple_by if sizes[name]]
        return (" × ".join(axis_texts) or "A search") + on

    def conclusion(self) -> str:
        """The best candidate."""
        if self.best is None:
            return "No candidate has a score yet."
        return f"The best is {self.candidate_name(self.best.model_dump())}."

    def candidate_name(self, candidate: Mapping[str, Any]) -> str:
        """Parameters of a candidate: ``C = 10, gamma = 0.01``."""
        parameter_names = [name for name in self.simple_by if candidate.get(name) is not None]
        return ", ".join(f"{name} = {significant(candidate[name])}" for name in parameter_names)

    def cards(self) -> list[Card]:
        """Cards for the scores, and for the fits that a strategy made."""
        return [*self.score_cards(), *strategy_cards(self.metadata)]

    def warnings(self) -> list[tuple[str, str]]:
        """Warnings about untried candidates, and about a best candidate at the edge of the grid."""
        record, budget_notes = self.record, budget_warnings(self.metadata, self.path)
        bounds = on_grid_boundary(self.candidates, self.n_splits or 0)
        if record.status != "finished" or not bounds:
            return budget_notes
        text = (
            f"The best candidate has {' and '.join(map(str, bounds))} of the grid, and is better "
            "than its neighbour by more than one standard error; the optimum may lie outside it."
        )
        if not record.argv:
            return [*budget_notes, (text, "")]
        command, n_more = widening_command(record.argv, self.metadata["options"], bounds, self.path)
        return [
            *budget_notes,
            (f"{text} To widen it by {most_fits(self.metadata, n_more)}:", command),
        ]

    def cell_name(self, cell: Mapping[str, Any]) -> str:
        """Parameters and fold of a cell."""
        return f"{self.candidate_name(cell)}, fold {cell['fold']:.0f}"

    def sections(self) -> list[Section]:
        """Sections on candidates, the grid, test samples and importances."""
        words = (
            "SE is the standard error of the best. Support vectors are averaged over the folds, "
            "fit times are summed, without compiling. Standard deviations on this page are over "
            "the folds and divide by their number."
        )
        if "epsilon" in self.simple_by:
            words += (
                " Targets are standardised on the training rows of each fold: epsilon and C are in "
                "units of their standard deviation."
            )
        if (exactness := self.record.exactness) is not None:
            n = self.record.options.landmarks or LANDMARKS
            exactness_text = exactness_in_words(exactness.model_dump(), self.metadata)
            words += (
                f" {n:,} landmarks, chosen from the training rows of each split, stand for all of "
                f"them, and are the support vectors: {exactness_text}. The interval is of 95 %."
            )
        table, by, last_columns = self.candidates, list(self.simple_by), {}
        if not self.measure.is_error and len(table) and table["error_mean"].notna().any():
            last_columns["cv error"] = table["error_mean"]
        if not (self.cells.empty or table.empty):
            cells = self.cells.astype({"n_support": "float64"}).groupby(by)
            work = cells.agg(n_support=("n_support", "mean"), seconds=("fit_seconds", "sum"))
            work = table[by].merge(work.reset_index(), on=by, how="left")
            last_columns |= {"support vectors": work["n_support"], "fit time (s)": work["seconds"]}
        formats = {
            "cv error": percent,
            "support vectors": "{:,.0f}".format,
        }
        charts = SideBySide([self._folds_of_best_gamma(), self._map()])
        name_columns = {name: table[name] for name in by if name in table}
        return [
            self.candidates_section(name_columns, last_columns, formats, words),
            Section("grid", "The draws" if are_drawn(self.record) else "The grid", [charts]),
            test_section(self),
            curves_section(ClassValues.of_run(self)),
            importance_section(self),
        ]

    def points(self) -> pd.DataFrame:
        """Gamma, C and the mean score of every pair, at the best epsilon for each.

        The score is NaN for candidates that were not tried on all folds.
        """
        table = self.candidates
        whole = table.assign(score_mean=table["score_mean"].where(have_all_folds(table)))
        best = whole.groupby(["gamma", "C"])["score_mean"].max()
        return self.measure.of(best).reset_index()

    def means(self) -> pd.DataFrame:
        """Mean scores by gamma (rows) and C (columns), at the best epsilon for each pair.

        The score is NaN for candidates that were not tried on all folds.
        """
        table = self.candidates
        return self._by_gamma_and_C(table["score_mean"].where(have_all_folds(table)))

    def parts(self) -> pd.DataFrame | None:
        """Like ``means``, but for candidates that were not tried on all folds; None if all were."""
        table = self.candidates
        if "score_part" not in table or table["score_part"][~have_all_folds(table)].isna().all():
            return None
        return self._by_gamma_and_C(table["score_part"])

    def _by_gamma_and_C(self, scores: pd.Series) -> pd.DataFrame:
        table = self.candidates
        return self.measure.of(scores.groupby([table["gamma"], table["C"]]).max().unstack())

    def _map(self) -> Chart | None:
        if self.candidates.empty:
            return None
        measure, best, words, frame = self.measure, self.best, "", None
        if best is not None and best.C and best.gamma and best.score_mean is not None:
            words = f"{self.candidate_name(best.model_dump())}, "
            words += measure.text(measure.of(best.score_mean))
            frame = best.gamma, best.C
        title = f"Mean validation {measure.name}"
        parts, mark, arguments = self.parts(), "framed", (frame, measure, title, f"best: {words}")
        draw = partial(heat_map, self.means(), *arguments, parts)
        if are_drawn(self.record):  # they do not lie on a grid
            mark, draw, parts = "ringed", partial(scatter_map, self.points(), *arguments), None
        hint = "the darker, the better" if measure.is_loss else "the brighter, the better"
        caption = (
            f"{title} of every candidate{' in percent' if measure.is_error else ''}: {hint}. The "
            f"best candidate is {mark} in orange."
        )
        if parts is not None:
            caption += (
                " What is hatched was given up, or time ended: its colour is the mean over what it "
                "was tried on, a few folds or a fraction of the rows: compare it only with what "
                "was tried on the same."
            )
        if "epsilon" in self.simple_by:
            caption += " Each C and gamma by its best epsilon."
        alt = f"{title} of every C and gamma; the best is {words}."
        return Chart("heat_map", draw, caption, alt=alt)

    def _folds_of_best_gamma(self) -> Chart | None:
        best, cells, measure = self.best, self.cells, self.measure
        if best is None or not best.gamma or not best.C or cells.empty:
            return None
        cells = cells[np.isclose(cells["gamma"], best.gamma, atol=0)]
        if best.epsilon is not None and "epsilon" in cells:
            cells = cells[np.isclose(cells["epsilon"].astype(float), best.epsilon)]
        gamma = significant(best.gamma)
        by_C: list[tuple[Any, pd.DataFrame]] = list(cells.sort_values("fold").groupby("C"))
        if are_drawn(self.record) and len(by_C) < 2:
            return None
        samples = [
            Sample(i, measure.of(of_C["score"].to_numpy(float)), bool(np.isclose(C, best.C)))
            for i, (C, of_C) in enumerate(by_C)
        ]
        reading_hint = how_to_read(self.n_splits or 1, "fold")
        caption = f"The folds at gamma = {gamma}: {reading_hint}. The best C is orange."
        if len(set(map(len, (sample.values for sample in samples)))) > 1:
            caption += " A C that was not tried on all folds has those it was tried on."
        labels = [significant(C) for C, _ in by_C]
        draw = partial(samples_chart, samples, measure, f"Folds at gamma = {gamma}", labels, "C")
        return Chart("fold_errors_best", draw, caption) if samples else None


@dataclass(frozen=True)
class SvmRegressionReport(SvmReport):
    """A run of ``svm_grid`` for regression: a search over C, gamma and epsilon."""

    title = "SVM regression grid search"
    key_columns = (*CANDIDATE, "epsilon", "fold")
    simple_by = (*CANDIDATE, "epsilon")
    own_scoring = "r2"
