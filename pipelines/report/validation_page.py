"""The page of a run of ``cross_validate``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

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
from pipelines.report.parts import (
    Card,
    Chart,
    Columns,
    Folded,
    Listing,
    Part,
    Section,
    Table,
    Text,
    Value,
    table_of,
)
from pipelines.report.style import BLUE, NARROW, VERMILLION, WIDE
from pipelines.report.wording import count, shortened
from pipelines.run_folder import names
from pipelines.run_folder.columns import (
    VALIDATION_CELL,
    ComparedPair,
    SearchRow,
    ValidatedCandidate,
)
from pipelines.run_folder.measures import measure_of
from pipelines.run_folder.ranking import candidates_of
from pipelines.run_folder.reading import read_run
from pipelines.run_folder.records.cross_validate import ValidationRecord
from pipelines.run_folder.statistics import WithinOneStandardError, within_one_standard_error
from pipelines.run_folder.tables import read_table

MOST_CURVES = 9
SIGNIFICANT = 0.05  # p, below which a difference is called that
LEAST_SECONDS = 1e-5  # of a fit, on a logarithmic axis


@dataclass(frozen=True)
class ValidationReport(Report[ValidationRecord]):
    """A run of ``cross_validate``.

    ``pairs`` compares algorithms, ``curve`` has the rows of the learning curve; None where there
    is no such table.
    """

    title = "Cross-validation"
    place = VALIDATION_CELL
    pairs: pd.DataFrame | None = None
    curve: pd.DataFrame | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the folder of a run of ``cross_validate``; raises what ``read_run`` raises."""
        run = read_run(
            folder, candidate=ValidatedCandidate, place=VALIDATION_CELL,
            candidates_of=_candidates_of,
        )  # fmt: skip
        return cls(
            **vars(run),
            pairs=read_table(run.path / names.COMPARISON, ComparedPair),
            curve=read_table(run.path / names.LEARNING_CURVE, SearchRow),
        )

    @property
    def scoring(self) -> str | None:
        """The scoring by which the best candidate is chosen."""
        return (self.record.scoring or ["score"])[0]

    @property
    def best_of(self) -> dict[str, int]:
        """The best candidate of every algorithm, the best algorithm first."""
        if "algorithm" not in self.candidates or self.candidates.empty:
            return {}
        first = self.candidates[self.candidates["score_mean"].notna()].drop_duplicates("algorithm")
        return dict(zip(first["algorithm"], first["candidate"].astype(int), strict=True))

    @property
    def fold_scores(self) -> dict[str, np.ndarray]:
        """Scores on the folds of the best candidate of every algorithm."""
        of = {
            name: self.cells[self.cells["candidate"] == candidate]["score"].dropna().to_numpy(float)
            for name, candidate in self.best_of.items()
        }
        return {name: scores for name, scores in of.items() if len(scores)}

    def size(self) -> str:
        """Count candidates and algorithms."""
        algorithms = self.cells["algorithm"].nunique() if "algorithm" in self.cells else 0
        n = self.record.n_candidates
        text = count(n, "candidate") if n is not None else "candidates"
        if algorithms:
            text += f" of {count(algorithms, 'algorithm')}"
        return text + (f", {self.record.task}" if self.record.task else "")

    def conclusion(self) -> str:
        """Name the best, and say whether it differs from the second best."""
        if (best := self.record.best) is None:
            return "" if len(self.candidates) else "No candidate has all of its folds yet."
        words = f"{_short(best.algorithm)} ({_words(best.parameters)})"
        return f"{self.answer_with(words)} {self._against_the_second()}".strip()

    def _against_the_second(self) -> str:
        if self.pairs is None or len(self.best_of) < 2:
            return ""
        best, second, *_ = self.best_of
        both = self.pairs[(self.pairs["first"] == best) & (self.pairs["second"] == second)]
        if both.empty:
            return ""
        row, measure = both.iloc[0], self.measure
        far = abs(float(row["mean"]))
        points = f"{100 * far:.2f} points" if measure.is_error else measure.text(far)
        text = f"It is better than {_short(second)} by {points}"
        if pd.isna(p := row["p_holm"]):
            return f"{text}."
        if p < SIGNIFICANT:
            return f"{text}, which is significant (p {'< 0.001' if p < 0.001 else f'= {p:.3f}'})."
        return f"{text}; not significant (p = {p:.2f})."

    def cards(self) -> list[Card]:
        """Return scores, what they should beat, and how many candidates are as good."""
        cards, found = self.score_cards(), self._as_good()
        if found is None:
            return cards
        row = found.simplest
        fastest = (
            f"{_short(row['algorithm'])} with {_words(json.loads(row['params']))} is fitted "
            f"fastest: {self.measure.text(self.measure.of(row['score_mean']))}"
        )
        return [*cards, *as_good_card(found, "the best is the one that is fitted fastest", fastest)]

    def _as_good(self) -> WithinOneStandardError | None:
        """Return candidates as good as the best; what is fitted fastest stands for the simplest."""
        if not {"fit_seconds", "score_mean"} <= set(self.candidates):
            return None
        n_scored = int(self.candidates["n_ok"].max()) if len(self.candidates) else 0
        return within_one_standard_error(self.candidates, n_scored, ("fit_seconds",))

    def cell_name(self, cell: Mapping[str, Any]) -> str:
        """Name a cell by its algorithm, candidate and fold."""
        return f"{cell['algorithm']}, candidate {cell['candidate']}, fold {cell['fold']}"

    def sections(self) -> list[Section]:
        """Return candidates, algorithms side by side, curves, test samples and shared work."""
        order = f"by the mean {self.measure.name} over the folds"
        compared = Section(
            "comparison", "Comparison of algorithms",
            [Columns([self._algorithms(), self._cost()]), *self._pairs_table()],
            link="Comparison",
        )  # fmt: skip
        curves = [*self._validation_curves(), self._learning_curve()]
        return [
            candidates_section(self.candidates, self._table(), order),
            compared,
            Section("curves", "Curves", curves),
            test_section(self),
            Section("shared", "Shared work", self._shared()),
        ]

    def _table(self) -> Table:
        def score(name: str) -> Column:
            shown = measure_of(name.removeprefix("score_").removesuffix("_mean"))
            return f"cv {shown.name}", lambda row: (
                shown.of(float(row[name])), shown.text(shown.of(float(row[name])))
            )  # fmt: skip

        more = [
            name for name in map(str, self.candidates)
            if name.startswith("score_") and name.endswith("_mean") and name != "score_mean"
        ]  # fmt: skip
        return candidates_table(
            self.candidates, self.measure, self._as_good(), "fastest",
            [("algorithm", itemgetter("algorithm")),
             ("parameters", lambda row: _words(json.loads(row["params"])))],
            [score(name) for name in more],
            [("seconds a fit", lambda row: float(row.get("fit_seconds", math.nan)))],
        )  # fmt: skip

    def _algorithms(self) -> Chart | None:
        scores, measure = self.fold_scores, self.measure
        if not scores:
            return None
        alt = f"The {measure.name} on every fold of the best candidate of each algorithm."
        reads = how_to_read(max(map(len, scores.values())), "fold")
        caption = (
            f"The best candidate of each algorithm, its {measure.name}: {reads}. The best "
            "algorithm is orange."
        )
        samples = [Sample(i, measure.of(one), i == 0) for i, one in enumerate(scores.values())]
        names = [shortened(_short(name), 18) for name in scores]
        is_wide = len(scores) > 6
        draw = partial(samples_chart, samples, measure, "The best of each algorithm", names,
                       width=WIDE if is_wide else NARROW)  # fmt: skip
        return Chart("algorithms", draw, alt, caption, wide=is_wide)

    def _cost(self) -> Chart | None:
        if not {"fit_seconds", "score_mean"} <= set(self.candidates):
            return None
        known = self.candidates[["score_mean", "fit_seconds"]].notna().all(axis=1)
        table, measure = self.candidates[known], self.measure
        if len(table) < 2:
            return None
        table = table.assign(
            shown=measure.of(table["score_mean"]),
            seconds=table["fit_seconds"].clip(lower=LEAST_SECONDS),
        )
        first = table.iloc[0]
        series = [
            Series(
                some["seconds"], some["shown"], shortened(_short(str(name)), 24),
                look=dots(COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)], 6, alpha=0.75),
            )
            for i, (name, some) in enumerate(table.groupby("algorithm", sort=False))
        ]  # fmt: skip
        ring = dots(VERMILLION, "o", 13, markerfacecolor="none", markeredgewidth=2)
        series.append(Series([first["seconds"]], [first["shown"]], look=ring))
        panel = Panel(
            series, "seconds of a fit, shared work divided evenly", measure.name,
            scales=("log", "percent" if measure.is_error else "linear"),
        )  # fmt: skip
        alt = f"Seconds of a fit against {measure.name}, for every candidate."
        caption = (
            f"Every candidate: how long a fit takes, and its mean {measure.name}. The best is "
            "ringed."
        )
        draw = partial(series_chart, [panel], "Time of a fit")
        return Chart("time_against_score", draw, alt, caption)

    def _pairs_table(self) -> list[Part | None]:
        if self.pairs is None or self.pairs.empty:
            return []
        measure = self.measure
        sign = -1 if measure.is_loss else 1
        # The table of the comparison divides by one less, as its t does.
        n = max((len(found) for found in self.fold_scores.values()), default=1)
        rows: list[list[Value]] = []
        for row in self.pairs.to_dict("records"):
            std = float(row["std"]) * math.sqrt((n - 1) / n)
            mean = sign * float(row["mean"])
            signed = [sign * float(row[name]) for name in ("t", "effect")]
            others = [float(row[n]) for n in ("p", "p_holm", "p_first", "p_same", "p_second")]
            rows.append(
                [
                    str(row["first"]), str(row["second"]), (mean, measure.text(mean, "+")),
                    (std, measure.text(std)),
                    *((one, f"{one:.3f}") for one in (*signed, *others)),
                ]
            )  # fmt: skip
        table = Table.of(
            ("first", "second", "difference", "standard deviation", "t", "effect", "p", "p, Holm",
             "P(first better)", "P(same)", "P(second better)"), rows,
        )  # fmt: skip
        words = (
            "Each row compares the best candidates of two algorithms fold by fold: the "
            f"{measure.name} of the first minus that of the second. p is from the corrected "
            "resampled t-test (Nadeau and Bengio; Bouckaert and Frank over repeats), and Holm's "
            "method corrects it for the number of pairs. The effect is the mean of the differences "
            "over their standard deviation. The probabilities say whether the mean difference lies "
            f"above, within or below ± {self.record.options.rope} (Corani and Benavoli). The best "
            "of a grid is judged on the folds that chose it, so small differences mean little."
        )
        return [Text(words), Listing("Comparison", table, tall=False)]

    def _validation_curves(self) -> list[Part | None]:
        curves = [
            (name, parameter, table)
            for name, candidate in self.best_of.items()
            for parameter, table in self.curves_of(name, candidate).items()
        ]
        if not curves:
            return []
        panels = [self._curve(*one) for one in curves[:MOST_CURVES]]
        shown = "; ".join(f"{parameter} of {name}" for name, parameter, _ in curves)
        alt = f"The {self.measure.name} against {shown}."
        caption = (
            f"Mean {self.measure.name} over the folds, and its standard deviation, against each "
            "parameter that was varied; the other parameters are those of the algorithm's best "
            "candidate, which is orange."
        )
        draw = partial(series_chart, panels, "One parameter at a time")
        return [Chart("validation_curves", draw, alt, caption, wide=len(panels) > 1)]

    def curves_of(self, algorithm: str, best: int) -> dict[str, pd.DataFrame]:
        """Return, for each parameter, the candidates that differ from the best in it alone.

        Each is a table of ``value``, ``score_mean``, ``score_std``.
        """
        some = self.candidates[
            (self.candidates["algorithm"] == algorithm) & self.candidates["score_mean"].notna()
        ]
        params = {int(row["candidate"]): json.loads(row["params"])
                  for row in some.to_dict("records")}  # fmt: skip
        curves = {}
        for parameter in params.get(best, ()):
            along = [
                one for one, values in params.items()
                if {**values, parameter: None} == {**params[best], parameter: None}
            ]  # fmt: skip
            if len(along) > 1:
                table = some[some["candidate"].isin(along)]
                values = [params[int(one)].get(parameter) for one in table["candidate"]]
                curves[parameter] = table.assign(value=values)
        return curves

    def _curve(self, algorithm: str, parameter: str, table: pd.DataFrame) -> Panel:
        """Return the panel of an algorithm: the score against the values of one parameter."""
        mean = self.measure.of(table["score_mean"].to_numpy(float))
        std, ticks, scale = table["score_std"].to_numpy(float), None, "linear"
        x = pd.to_numeric(table["value"], errors="coerce").to_numpy(float)
        best = int(np.nanargmax(table["score_mean"]))
        if np.isfinite(x).all():
            order = np.argsort(x)
            point, x, mean, std = (x[best], mean[best]), x[order], mean[order], std[order]
            if x[0] > 0 and x[-1] >= 20 * x[0]:
                scale = "log"
            look: dict[str, Any] = {"color": BLUE, "marker": "." if len(x) < 40 else None}
        else:
            x, look = np.arange(len(mean)), dots(BLUE)
            point = x[best], mean[best]
            ticks = x.tolist(), [shortened(str(value), 10) for value in table["value"]]
        series = [
            Series(x, mean, band=(mean - std, mean + std), look=look),
            Series([point[0]], [point[1]], look=dots(VERMILLION, "o", 7, zorder=3)),
        ]
        y_scale = "percent" if self.measure.is_error else "linear"
        title = shortened(_short(algorithm), 28)
        return Panel(series, parameter, self.measure.name, title, (scale, y_scale), ticks)

    def _learning_curve(self) -> Chart | None:
        if self.curve is None or self.curve.empty:
            return None
        best, measure = self.best_of, self.measure
        whole = self.cells[self.cells["candidate"].isin(best.values())]
        rows = pd.concat([self.curve, whole], ignore_index=True)
        table = rows.groupby(["algorithm", "share"], as_index=False).agg(
            n_train=("n_train", "mean"), mean=("score", "mean"),
            std=("score", lambda scores: scores.std(ddof=0)),
        )  # fmt: skip
        series = []
        for i, name in enumerate(best):
            line = table[table["algorithm"] == name].sort_values("n_train")
            mean, std = measure.of(line["mean"]), line["std"]
            look = {"color": COLOURS[i % len(COLOURS)], "marker": MARKS[i % len(MARKS)]}
            label = shortened(_short(name), 24)
            series.append(Series(line["n_train"], mean, label, (mean - std, mean + std), look))
        panel = Panel(series, "training rows", measure.name,
                      scales=("linear", "percent" if measure.is_error else "linear"))  # fmt: skip
        alt = f"The {measure.name} against the number of training rows."
        caption = (
            f"Mean {measure.name} on the validation rows, and its standard deviation, when the "
            "best candidate of an algorithm is fitted on a share of the training rows."
        )
        draw = partial(series_chart, [panel], "Learning curve")
        return Chart("learning_curve", draw, alt, caption)

    def _shared(self) -> list[Part | None]:
        record = self.record
        if not record.families:
            return []
        words = (
            "Candidates that share work are fitted together. Their results equal those of separate "
            "fits; those of the path solver agree within the estimator's tolerance."
        )
        if record.steps_asked:
            words += f" First steps of pipelines: {record.steps_asked:,} asked for, "
            words += f"{record.steps_made:,} made."
        families = [
            (one.family, (one.asked, f"{one.asked:,}"), (one.made, f"{one.made:,}"))
            for one in record.families
        ]
        shared = Table.of(("shared", "fits asked for", "fits made"), families)
        of = ["algorithm", "implementation", "reason"]
        used = pd.DataFrame(columns=of)
        if len(self.cells) and "implementation" in self.cells:
            used = self.cells.groupby(of, as_index=False).size().rename(columns={"size": "fits"})
        return [
            Text(words),
            Listing("Shared work", shared, tall=False),
            Folded("Implementations", [Listing("Implementations", table_of(used), tall=False)]),
        ]


def _candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Return candidates of a run that ended before it wrote their table."""
    if cells.empty:
        return cells
    ranked = candidates_of(cells, ["candidate"], n_folds)
    about = cells.groupby("candidate")[["algorithm", "params"]].first()
    seconds = cells.groupby("candidate")[["fit_seconds", "score_seconds"]].mean()
    return ranked.join(about, on="candidate").join(seconds, on="candidate")


def _short(algorithm: str) -> str:
    """Return an estimator's name without the modules it is in."""
    return algorithm.split(".")[-1]


def _words(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in parameters.items()) or "defaults"
