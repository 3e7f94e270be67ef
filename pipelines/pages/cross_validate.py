"""Page of a run of ``cross_validate``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from pipelines.pages.strategy import are_drawn, budget_warnings, strategy_cards
from pipelines.report.base import Report
from pipelines.report.charts import (
    COLOURS,
    MARKS,
    Panel,
    Sample,
    Series,
    dots,
    how_to_read,
    samples_chart,
    series_chart,
)
from pipelines.report.classification import test_section
from pipelines.report.curves import ClassValues, curves_section
from pipelines.report.importances import importance_section
from pipelines.report.parts import Card, Chart, Listing, Part, Section, SideBySide, Text
from pipelines.report.style import BLUE, NARROW, VERMILLION, WIDE
from pipelines.report.wording import count, shorten
from pipelines.run_folder.measures import measure_of
from pipelines.run_folder.ranking import have_all_folds, ranked_candidates
from pipelines.run_folder.reading import read_table
from pipelines.search.record import (
    CELL,
    COMPARISON,
    LEARNING_CURVE,
    SearchRow,
    ValidationRecord,
)

MOST_CURVES = 9  # validation curves, three in a row
SIGNIFICANT = 0.05  # p below which a difference is called significant
OF_PAIRS = {
    "p_holm": "p, Holm",
    "p_first": "P(first better)",
    "p_same": "P(same)",
    "p_second": "P(second better)",
    "mean": "difference",
    "std": "standard deviation (n - 1)",
}


@dataclass(frozen=True)
class ValidationReport(Report):
    """A run of ``cross_validate``: the best candidate of each algorithm, compared."""

    title = "Cross-validation"
    key_columns = CELL
    simplest = "fastest to fit"
    simple_by = ("fit_seconds",)

    record: ValidationRecord

    @cached_property
    def pairs(self) -> pd.DataFrame | None:
        """Paired comparisons of algorithms; None where the run has no such table."""
        return read_table(self.path / COMPARISON)

    @cached_property
    def curve(self) -> pd.DataFrame | None:
        """Rows of the learning curve; None where the run has no such table."""
        return read_table(self.path / LEARNING_CURVE, SearchRow)

    def candidates_of_cells(self) -> pd.DataFrame:
        """Candidates of a run that ended before it wrote their table, from its cells."""
        if self.cells.empty:
            return self.cells
        by_candidate = self.cells.groupby("candidate")
        return (
            ranked_candidates(self.cells, ["candidate"], self.n_splits or 0)
            .join(by_candidate[["algorithm", "params"]].first(), on="candidate")
            .join(by_candidate[["fit_seconds", "score_seconds"]].mean(), on="candidate")
        )

    @property
    def scoring(self) -> str | None:
        """Name of the scorer that chooses the best candidate."""
        return (self.record.scoring or ["score"])[0]

    @property
    def y_scale(self) -> str:
        """Scale of an axis of scores, as for ``Panel``."""
        return "percent" if self.measure.is_error else "linear"

    @property
    def best_of(self) -> dict[str, int]:
        """Number of the best candidate of each algorithm, the best algorithm first."""
        if self.candidates.empty:
            return {}
        first = self.candidates[self.candidates["score_mean"].notna()].drop_duplicates("algorithm")
        return dict(zip(first["algorithm"], first["candidate"].astype(int), strict=True))

    @property
    def fold_scores(self) -> dict[str, np.ndarray]:
        """Scores of the best candidate of each algorithm on its folds."""
        scores_by_name = {
            name: self.cells[self.cells["candidate"] == candidate]["score"].dropna().to_numpy(float)
            for name, candidate in self.best_of.items()
        }
        return {name: scores for name, scores in scores_by_name.items() if len(scores)}

    def size(self) -> str:
        """Number of candidates and algorithms, and the task."""
        table = self.cells if self.candidates.empty else self.candidates
        algorithms = table["algorithm"].nunique() if "algorithm" in table else 0
        n = self.record.n_candidates
        text = count(n, "candidate") if n is not None else "candidates"
        if algorithms:
            text += f" of {count(algorithms, 'algorithm')}"
        return text + (f", {self.record.task}" if self.record.task else "")

    def conclusion(self) -> str:
        """The best candidate, and whether it is significantly better than the second algorithm."""
        if (best := self.record.best) is None:
            return "" if len(self.candidates) else "No candidate has all of its folds yet."
        text = f"The best is {_short(best.algorithm)} ({_words(best.parameters)})."
        if self.pairs is None or len(self.best_of) < 2:
            return text
        first, second, *_ = self.best_of
        pair_rows = self.pairs[(self.pairs["first"] == first) & (self.pairs["second"] == second)]
        if pair_rows.empty:
            return text
        distance, p, measure = (
            abs(pair_rows["mean"].iloc[0]),
            pair_rows["p_holm"].iloc[0],
            self.measure,
        )
        distance_text = (
            f"{100 * distance:.2f} points" if measure.is_error else measure.text(distance)
        )
        text += f" It is better than {_short(second)} by {distance_text}"
        if pd.isna(p):
            return f"{text}."
        if p < SIGNIFICANT:
            return f"{text}, which is significant (p {'< 0.001' if p < 0.001 else f'= {p:.3f}'})."
        return f"{text}, which may be chance (p = {p:.2f})."

    def cards(self) -> list[Card]:
        """Cards for the scores, and for the fits that a strategy made."""
        return [*self.score_cards(), *strategy_cards(self.metadata)]

    def warnings(self) -> list[tuple[str, str]]:
        """A warning if the time budget ended before all candidates were tried."""
        return budget_warnings(self.metadata, self.path)

    def cell_name(self, cell: Mapping[str, Any]) -> str:
        """Algorithm, candidate and fold of a cell."""
        return f"{cell['algorithm']}, candidate {cell['candidate']}, fold {cell['fold']}"

    def candidate_name(self, candidate: Mapping[str, Any]) -> str:
        """Algorithm and parameters of a candidate."""
        return f"{_short(candidate['algorithm'])} with {_words(json.loads(candidate['params']))}"

    def sections(self) -> list[Section]:
        """Sections on candidates, algorithms, curves, test samples, importances and shared work."""
        table, name_columns, last_columns, formats = self.candidates, {}, {}, {}
        if not table.empty:
            parameters = [_words(json.loads(params_text)) for params_text in table["params"]]
            name_columns = {"algorithm": table["algorithm"].map(_short), "parameters": parameters}
            for column in map(str, table):
                scoring = column.removeprefix("score_").removesuffix("_mean")
                if column == f"score_{scoring}_mean":
                    shown_measure = measure_of(scoring)
                    last_columns[f"cv {shown_measure.name}"] = shown_measure.of(table[column])
                    formats[f"cv {shown_measure.name}"] = shown_measure.text
            if "fit_seconds" in table:
                last_columns["seconds a fit"] = table["fit_seconds"]
        shared_text = (
            "Candidates that share work are fitted together. Their results equal those of separate "
            "fits; those of the path solver agree within the estimator's tolerance."
        )
        if self.record.steps_asked:
            shared_text += f" First steps of pipelines: {self.record.steps_asked:,} asked for, "
            shared_text += f"{self.record.steps_made:,} made."
        families = pd.DataFrame(self.record.families).rename(
            columns={"family": "shared", "asked": "fits asked for", "made": "fits made"}
        )
        pairs, work = self._pairs(), Listing("Shared work", families, tall=False)
        title = "Comparison of algorithms"
        return [
            self.candidates_section(name_columns, last_columns, formats),
            Section("comparison", title, [self._algorithms(), *pairs], link="Comparison"),
            Section("curves", "Curves", self._curves()),
            test_section(self),
            curves_section(ClassValues.of_run(self)),
            importance_section(self),
            Section("shared", "Shared work", [Text(shared_text), work]),
        ]

    def _left_out(self, words: str) -> str:
        """A sentence on algorithms without a candidate on all folds: ``words``, names and reasons.

        If no algorithm has such a candidate, because the time budget ended first, the candidates
        with the most folds are compared, and the sentence says so.
        """
        strategy, best = self.record.strategy, self.record.best
        if best is not None and (best.n_splits or best.share):
            return " No candidate has all folds: of each algorithm that with the most is there."
        omissions = (
            [f"{_short(name)} ({why})" for name, why in strategy.left_out.items()]
            if strategy
            else []
        )
        return f"{words}{'; '.join(omissions)}." if omissions else ""

    def _algorithms(self) -> Chart | None:
        scores, measure = self.fold_scores, self.measure
        if not scores:
            return None
        reading_hint = how_to_read(max(map(len, scores.values())), "fold")
        caption = (
            f"The best candidate of each algorithm, its {measure.name}: {reading_hint}. The best "
            "algorithm is orange."
        )
        samples = [
            Sample(i, measure.of(fold_scores), i == 0)
            for i, fold_scores in enumerate(scores.values())
        ]
        title, is_wide = "The best of each algorithm", len(scores) > 6
        caption += self._left_out(" It leaves out ")
        width = WIDE if is_wide else NARROW
        room = max(10, round((70 if is_wide else 42) / len(scores)))  # characters per line
        labels = [shorten(_in_lines(_short(name), room), 2 * room) for name in scores]
        draw = partial(samples_chart, samples, measure, title, labels, width=width)
        return Chart("algorithms", draw, caption, wide=is_wide)

    def _pairs(self) -> list[Part]:
        if self.pairs is None or self.pairs.empty:
            return []
        measure, table = self.measure, self.pairs.copy()
        if measure.is_loss:
            table[["mean", "t", "effect"]] *= -1
        order = ["first", "second", "mean", "std", "t", "effect"]
        order += ["p", "p_holm", "p_first", "p_same", "p_second"]
        table = table[order].rename(columns=OF_PAIRS)
        table[["first", "second"]] = table[["first", "second"]].map(_short)
        words = (
            "Each row compares the best candidates of two algorithms fold by fold: the "
            f"{measure.name} of the first minus that of the second. p is from the corrected "
            "resampled t-test (Nadeau and Bengio; Bouckaert and Frank over repeats), and Holm's "
            "method corrects it for the number of pairs. The effect is the mean of the differences "
            "over their standard deviation. The probabilities say whether the mean difference lies "
            f"above, within or below ± {self.record.options.rope} (Corani and Benavoli). The best "
            "of a grid is judged on the folds that chose it, so small differences mean little."
        )
        words += self._left_out(" Not compared: ")
        formats: dict[str, Any] = dict.fromkeys(map(str, table), "{:.3f}".format)
        formats["difference"] = partial(measure.text, sign="+")
        formats["standard deviation (n - 1)"] = measure.text
        return [Text(words), Listing("Comparison", table, formats, tall=False)]

    def _curves(self) -> list[Part | None]:
        charts = [chart for chart in (self._validation_curves(), self._learning_curve()) if chart]
        are_narrow = len(charts) == 2 and not any(chart.wide for chart in charts)
        return [SideBySide(charts)] if are_narrow else [*charts]

    def _validation_curves(self) -> Chart | None:
        curves = [
            (name, parameter, table)
            for name, candidate in self.best_of.items()
            for parameter, table in self.curves_of(name, candidate).items()
        ]
        if not curves:
            return None
        panels = [self._curve(*curve) for curve in curves[:MOST_CURVES]]
        shown = "; ".join(f"{parameter} of {name}" for name, parameter, _ in curves)
        alt = f"The {self.measure.name} against {shown}."
        caption = (
            f"Mean {self.measure.name} over the folds, and its standard deviation, against each "
            "parameter that was varied; the other parameters are those of the algorithm's best "
            "candidate, which is orange."
        )
        title = "One parameter at a time"
        if are_drawn(self.record):
            title = "The draws, by one parameter at a time"
            caption = (
                f"Mean {self.measure.name} of every candidate that was drawn, against each of its "
                "parameters; the others differ, too. The algorithm's best is orange."
            )
        if not have_all_folds(self.candidates).all():
            caption += " Candidates without all folds are not drawn."
        draw = partial(series_chart, panels, title)
        return Chart("validation_curves", draw, caption, wide=len(panels) > 1, alt=alt)

    def curves_of(self, algorithm: str, best: int) -> dict[str, pd.DataFrame]:
        """Candidates along each parameter, for validation curves.

        On a grid, these are the candidates that differ from the best one in this parameter only.
        Candidates drawn at random differ in all parameters, so every candidate that has this
        parameter counts.

        Parameters
        ----------
        algorithm : str
        best : int
            Number of the algorithm's best candidate.

        Returns
        -------
        dict of str to DataFrame
            For each parameter with at least two values, the rows of the table of candidates with
            the column ``value``.
        """
        candidates = self.candidates[
            (self.candidates["algorithm"] == algorithm) & self.candidates["score_mean"].notna()
        ]
        candidates = candidates.assign(params=candidates["params"].map(json.loads)).set_index(
            "candidate"
        )
        curves = {}
        for parameter, value in candidates["params"][best].items():
            is_on_curve = [
                parameter in params
                if are_drawn(self.record)
                else {**params, parameter: value} == candidates["params"][best]
                for params in candidates["params"]
            ]
            table = candidates[is_on_curve]
            values = [params.get(parameter) for params in table["params"]]
            if len(set(map(str, values))) > 1:
                curves[parameter] = table.assign(value=values)
        return curves

    def _curve(self, algorithm: str, parameter: str, table: pd.DataFrame) -> Panel:
        """A panel of the scores of an algorithm against the values of one parameter."""
        x, ticks, scale = pd.to_numeric(table["value"], errors="coerce"), None, "linear"
        look: dict[str, Any] = {"color": BLUE, "marker": "." if len(x) < 40 else None}
        if np.isfinite(x.astype(float)).all():
            table = table.assign(x=x).sort_values("x")
            if x.min() > 0 and x.max() >= 20 * x.min():
                scale = "log"
        else:
            places, words = pd.factorize(table["value"].map(str))
            table, look = table.assign(x=places), dots(BLUE)
            ticks = list(range(len(words))), [shorten(str(word), 10) for word in words]
        mean, std = self.measure.of(table["score_mean"]), table["score_std"]
        best = [table.index.tolist().index(self.best_of[algorithm])]
        band = (mean - std, mean + std)
        if are_drawn(self.record):
            look = dots(BLUE, size=4)
        series = [
            Series(table["x"], mean, band=None if are_drawn(self.record) else band, look=look),
            Series(table["x"].iloc[best], mean.iloc[best], look=dots(VERMILLION, "o", 7, zorder=3)),
        ]
        title = shorten(_short(algorithm), 28)
        return Panel(series, parameter, self.measure.name, title, (scale, self.y_scale), ticks)

    def _learning_curve(self) -> Chart | None:
        if self.curve is None or self.curve.empty:
            return None
        best, measure = self.best_of, self.measure
        whole_cells = self.cells[self.cells["candidate"].isin(best.values())]
        rows = pd.concat([self.curve, whole_cells], ignore_index=True)
        table = rows.groupby(["algorithm", "share"], as_index=False).agg(
            n_train=("n_train", "mean"),
            mean=("score", "mean"),
            std=("score", lambda scores: scores.std(ddof=0)),
        )
        series = []
        for i, name in enumerate(best):
            line = table[table["algorithm"] == name].sort_values("n_train")
            mean, std = measure.of(line["mean"]), line["std"]
            look = {"color": COLOURS[i % len(COLOURS)], "marker": MARKS[i % len(MARKS)]}
            label = shorten(_short(name), 24)
            series.append(Series(line["n_train"], mean, label, (mean - std, mean + std), look))
        panel = Panel(series, "training rows", measure.name, scales=("linear", self.y_scale))
        caption = (
            f"Mean {measure.name} on the validation rows, and its standard deviation, when the "
            "best candidate of an algorithm is fitted on a fraction of the training rows."
        )
        caption += self._left_out(" It leaves out ")
        draw = partial(series_chart, [panel], "Learning curve")
        return Chart("learning_curve", draw, caption)


def _short(algorithm: str) -> str:
    """Name of an estimator without its module path."""
    return algorithm.split(".")[-1]


def _in_lines(name: str, room: int) -> str:
    """A class name, broken between its words into lines of at most ``room`` characters."""
    lines, words = [""], re.findall(r"[A-Z]?[^A-Z]+|[A-Z]+(?![a-z])", name)
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) > room:
            lines.append("")
        lines[-1] += word
    return "\n".join(lines)


def _words(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in parameters.items()) or "defaults"
