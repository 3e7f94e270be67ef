"""Page of a run of ``nn_bagging``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from pipelines.bagging.record import (
    CANDIDATE,
    CELL,
    EXPLAINED,
    MEMBER_PROBABILITIES,
    MEMBERS,
    SIZES,
    BaggingRecord,
)
from pipelines.errors import InputError, opt
from pipelines.pages.strategy import strategy_cards
from pipelines.report.base import Report, candidates_section
from pipelines.report.charts import (
    ExplainedSample,
    Panel,
    Series,
    certainty_panels,
    dashed,
    describe_prediction,
    dots,
    how_to_read,
    series_chart,
)
from pipelines.report.classification import BEST, test_section
from pipelines.report.curves import ClassValues, curves_section
from pipelines.report.importances import importance_section
from pipelines.report.parts import Card, Chart, Listing, Part, Section, SideBySide, Text
from pipelines.report.regression_charts import (
    INTERVALS,
    deferral_chart,
    interval_cards,
    intervals_chart,
    kept_numbers_chart,
)
from pipelines.report.style import BLUE, INK, figure_style, save
from pipelines.report.wording import count, percent, significant, wrong_of
from pipelines.run_folder.measures import ACCURACY, measure_of
from pipelines.run_folder.names import CELLS
from pipelines.run_folder.reading import as_pictures, read_table
from pipelines.run_folder.record import Record
from pipelines.run_folder.schema import DAMAGE, damaged, one_line
from pipelines.run_folder.statistics import wilson

ARRAYS = ("name", "group", "X", "true", "probabilities", "vote", "deferred")
# Error columns in the tables of members and candidates.
ERRORS = ("training_error", "test_error", "cv_error", "out_of_bag_error", "error_mean", "error_std")
FORMATS = dict.fromkeys(ERRORS, percent)
MOST_POINTS = 40  # samples per group that get a panel
N_BINS = 15  # for the calibration error
INTERVAL_WORDS = (
    "Intervals of {confidence} % by the jackknife+-after-bootstrap, from what members say of "
    "{rows} that they did not draw; errors are counted in units of the members' disagreement, so "
    "that intervals are wide where members disagree."
)
GROUPS = {
    "own": "Your own images, as the members see them.",
    "chosen": "The samples you chose.",
    "disagreement": "The test samples on which the members disagree most.",
}


@dataclass(frozen=True)
class BaggingReport(Report):
    """A run of ``nn_bagging``: ``candidates`` has a row for each candidate of each member.

    Attributes
    ----------
    of_members, of_candidates : str
        Sentences below the tables of members and candidates.
    ordered_by : str
        The score that candidates are sorted by: ``error`` or ``loss``.
    predicted_by : str
        Predictor of the test samples, for a caption.
    """

    title = "Bagging of neural networks"
    key_columns = CELL
    of_members: ClassVar[str] = ""
    of_candidates: ClassVar[str] = ""
    ordered_by: ClassVar[str] = "error"
    predicted_by: ClassVar[str] = BEST

    record: BaggingRecord

    @classmethod
    def of(cls, record: Record) -> type[Report]:
        """See ``Report``."""
        return BaggingRegressionReport if record.dataset.task == "regression" else cls

    @cached_property
    def members(self) -> pd.DataFrame | None:
        """The table of the members."""
        return read_table(self.path / MEMBERS)

    @cached_property
    def explained(self) -> dict[str, list[ExplainedSample]]:
        """Samples whose certainty is drawn, by group, see ``GROUPS``."""
        return _read_explained(self.path / EXPLAINED, self.record.dataset.image_shape)

    def candidates_of_cells(self) -> pd.DataFrame:
        """Mean loss and error of each candidate of a run that is not finished."""
        if self.cells.empty:
            return pd.DataFrame()
        by_candidate = self.cells.groupby(list(CANDIDATE))[["loss", "error"]]
        means = by_candidate.mean().where(by_candidate.count() >= (self.n_splits or 0))
        return means.add_suffix("_mean").assign(is_best=False).reset_index()

    @property
    def kept_by_rule(self) -> tuple[int, int, int] | None:
        """Numbers of test samples: those that the rule keeps, the wrong ones among them, all."""
        n_test, rule = self.record.dataset.n_test, self.record.selective_prediction
        return (rule.n_kept, rule.n_wrong_kept, n_test) if n_test and rule and rule.n_kept else None

    def size(self) -> str:
        """Number of members, and of candidates per member."""
        options = self.record.options
        if options.n_bootstrap is None or options.n_tuning is None:
            return "An ensemble"
        members, candidates = count(options.n_bootstrap, "member"), options.n_tuning
        if candidates == 0:
            return f"{members}, without a search"
        return f"{members}, each the best of {count(candidates, 'candidate')}"

    def conclusion(self) -> str:
        """The test error of the vote or, for a regression, of the mean."""
        if (answer := self._answer()) is None:
            return "No member has been refitted on all its data and tested yet."
        n_members = self.record.options.n_bootstrap if self.members is None else len(self.members)
        combined, error = answer
        return f"The {combined} of {count(n_members or 0, 'member')} {error} on the test set."

    def _answer(self) -> tuple[str, str] | None:
        error = self.record.vote_test_error
        return None if error is None else ("vote", f"has {percent(error)} error")

    def cards(self) -> list[Card]:
        """Cards for errors, deferral, the guarantee and calibration."""
        record, n_test = self.record, self.record.dataset.n_test
        if record.vote_test_error is None:
            return self.baseline_cards()
        vote_note, mean_note = (
            wrong_of(n, n_test) for n in (record.n_vote_errors, record.n_mean_errors)
        )
        best = f"mean; best {percent(record.members_best_test_error)}"
        cards = [
            Card("test error of the vote", percent(record.vote_test_error), vote_note),
            Card("test error of the mean probability", percent(record.mean_test_error), mean_note),
            Card("test error of a single member", percent(record.members_mean_test_error), best),
        ]
        cards += self.nested_cards(measure_of(ACCURACY), " of the vote")
        if (rule := self.kept_by_rule) is not None:
            n_kept, n_wrong, n_test = rule
            note = f"of {n_test:,} test samples; {percent(n_wrong / n_kept)} error among the others"
            cards.append(Card("deferred to a human", f"{n_test - n_kept:,}", note))
        if (guarantee := record.risk_control) is not None and guarantee.threshold is not None:
            kept, wrong = guarantee.n_kept_test, guarantee.n_wrong_kept_test
            value, note = "none", f"no test sample reaches a certainty of {guarantee.threshold:.3f}"
            if kept and n_test:
                value, coverage = percent(wrong / kept), percent(kept / n_test)
                note = f"of the {coverage} certain to at least {guarantee.threshold:.3f}"
            cards.append(Card("error with guarantee", value, note))
        if (error := record.test_calibration_error) is not None:
            note = "expected, 15 bins"
            if (calibration := record.calibration) and calibration.temperature != 1:
                scaled_error = percent(calibration.test_calibration_error)
                note += f"; {scaled_error} at temperature {calibration.temperature:.2f}"
            cards.append(Card("calibration error", percent(error), note))
        return [*cards, *self.baseline_cards(), *strategy_cards(self.metadata)]

    def sections(self) -> list[Section]:
        """Sections on members, trust in predictions, candidates, test samples and importances."""
        table = self.candidates
        if (by := f"{self.ordered_by}_mean") in table:
            table = table.sort_values(by, kind="stable")
        if len(table) > 1:  # constant columns are dropped; rank 1 marks the best
            table = table.drop(columns="is_best").loc[:, lambda frame: frame.nunique() > 1]
        words = [Text(self.of_members)] if self.of_members else []
        members = [Listing("Members", self.members, FORMATS), *words, self._ensemble_size()]
        order = f"mean {self.ordered_by} over the folds"
        of_candidates = f"{self.of_candidates} {self._without_all_folds()}".strip()
        return [
            Section("members", "Members", members),
            self._trust(),
            candidates_section(table, FORMATS, order, of_candidates),
            test_section(self, self.predicted_by),
            curves_section(self._class_values(), has_calibration=True),
            importance_section(self),
        ]

    def _class_values(self) -> ClassValues | None:
        return ClassValues.of_members(self, self.path / MEMBER_PROBABILITIES)

    def _without_all_folds(self) -> str:
        """A sentence on candidates that are not in the table, and why; empty if all are in it."""
        if not (entry := self.metadata.get("strategy")):
            return ""
        reasons = {
            "stopped early": entry["n_stopped"],
            "not on all folds as time ended": entry["n_out_of_time"],
            "not tried": entry["n_not_tried"],
        }
        if not (words := [f"{n:,} {reason}" for reason, n in reasons.items() if n]):
            return ""
        return (
            f"Of {entry['n_candidates']:,} candidates {', '.join(words)}: what folds these have is "
            f"in {CELLS}."
        )

    def _trust(self) -> Section:
        parts: list[Part | None] = [*map(Text, self._rules()), *map(self._certainty, GROUPS)]
        if self.predictions is not None and len(self.predictions):
            draw = (self._selective_prediction, self._calibration)
            parts.append(SideBySide([chart(self.predictions) for chart in draw]))
        return Section("certainty", "When not to trust a prediction", parts, link="Certainty")

    def _rules(self) -> list[str]:
        """Sentences on the rule, the guarantee, prediction sets, novelty and calibration."""
        record, words = self.record, []
        if (deferral := record.selective_prediction) is not None:
            words.append(deferral.rule)
        if (guarantee := record.risk_control) is not None:
            words.append(
                f"{guarantee.line[:1].upper()}{guarantee.line[1:]}. {guarantee.assumption}"
            )
        if (sets := record.prediction_sets) is not None:
            words.append(
                f"Prediction sets hold {sets.mean_size:.2f} classes on average. Their coverage"
                f" is {percent(sets.coverage)} of the test samples, {percent(sets.least_coverage)}"
                f" in the class with the lowest; the target is {percent(sets.confidence)}."
            )
        if (novelty := record.novelty) is not None:
            words.append(
                f"Novelty detection flags {count(novelty.n_named, 'test sample')} as unlike all "
                f"training samples, with a false discovery rate of at most {percent(novelty.rate)}."
            )
        if (fit := record.calibration) is not None and record.test_log_loss is not None:
            words.append(
                f"Calibration on out-of-bag rows: {fit.line}. Log loss of the test samples: "
                f"{record.test_log_loss:.4f} before, {fit.test_log_loss:.4f} after. "
                "All certainties on this page are those before calibration."
            )
        return words

    def _certainty(self, group: str) -> Chart | None:
        samples = self.explained.get(group, [])[:MOST_POINTS]
        if not samples:
            return None
        caption = GROUPS[group]
        words = "; ".join(
            f"{sample.name}: {describe_prediction(sample, self.classes)}" for sample in samples
        )
        alt = f"{caption} Every member's certainty of every class: {words}."
        reading_hint = how_to_read(len(samples[0].probabilities), "member")
        caption += f" Certainty of each class: {reading_hint}. The vote is orange"
        caption += ", and so is the title where the rule defers the sample to a human."
        draw = partial(certainty_panels, samples, self.classes)
        return Chart(f"certainty_{group}", draw, caption, wide=len(samples) > 1, alt=alt)

    def _ensemble_size(self) -> Chart | None:
        subsets = read_table(self.path / SIZES)
        if subsets is None or subsets.empty:
            return None
        by_size, is_vote = subsets.groupby("size"), "vote_error" in subsets
        gid, column, form = (
            ("vote", "vote_error", percent) if is_vote else ("mean", "rmse", significant)
        )
        errors = by_size[column]
        mean, band = errors.mean(), (errors.min(), errors.max())
        look = {"color": BLUE, "marker": "o", "markersize": 4, "gid": gid}
        label, error, scale = "mean of subsets", "root mean squared error", "linear"
        text = "Root mean squared error of the mean on the test samples"
        if is_vote:
            label, error, scale = "vote, mean of subsets", "error", "percent"
            text = "Test error of the vote"
        series = [Series(mean.index, mean, label, band, look)]
        if is_vote:
            of_mean = by_size["mean_error"].mean()
            series.append(Series(mean.index, of_mean, "mean probability", look=dashed(INK)))
        panel = Panel(series, "members", f"test {error}", scales=("linear", scale))
        title = f"Error against ensemble size: {form(mean.iloc[-1])} by all {mean.index[-1]}"
        caption = (
            f"{text} against the number of members; the band spans the best and the worst of the "
            "subsets that were drawn."
        )
        return Chart("ensemble_size", partial(series_chart, [panel], title, 4.0), caption)

    def _calibration(self, table: pd.DataFrame) -> Chart:
        bins = calibration_bins(table)
        look, band = dots(BLUE, "o", 5, gid="calibration"), (bins["low"], bins["high"])
        label = "accuracy and its 95 % interval"
        series = [
            Series(bins["certainty"], bins["right"], label, band, look),
            Series([0, 1], [0, 1], "perfectly calibrated", look=dashed(INK)),
        ]
        panel = Panel(
            series, "certainty of the mean probability", "accuracy", scales=("percent", "percent")
        )
        error = self.record.test_calibration_error
        title = "Calibration" + ("" if error is None else f": expected error {percent(error)}")
        caption = (
            "Accuracy of the predictions among test samples of about equal certainty, in 15 bins, "
            "and its 95 % interval, which is wide where samples are few."
        )
        return Chart("calibration", partial(series_chart, [panel], title, 4.0), caption)

    def _selective_prediction(self, table: pd.DataFrame) -> Chart:
        coverages, errors = kept_errors(table)
        # The error is 0 up to the first wrong sample: the curve starts there, or at half.
        start = max(0, min(int(np.argmax(errors > 0)) - 1, int(np.searchsorted(coverages, 0.5))))
        rule = None
        if (counts := self.kept_by_rule) is not None:
            n_kept, n_wrong, n_test = counts
            coverage, error = n_kept / n_test, n_wrong / n_kept
            rule = (
                coverage,
                error,
                f"the rule: error {percent(error)} at coverage {percent(coverage)}",
            )
        caption = (
            "Error among the predictions that are kept when the least certain are deferred to a "
            "human; the orange dot is the rule of this page."
        )
        by, label = "certainty of the vote", "error among those kept"
        return deferral_chart(
            coverages[start:], errors[start:], by, rule, caption, label, "percent"
        )


@dataclass(frozen=True)
class BaggingRegressionReport(BaggingReport):
    """A run of ``nn_bagging`` for regression."""

    title = "Bagging of neural networks for regression"
    of_members = (
        "Where out-of-bag rows end a training, as they do of networks for tables, their loss is a "
        "little too small."
    )
    of_candidates = (
        "The loss is half the squared error, in squared standard deviations of the targets that a "
        "network was trained on."
    )
    ordered_by = "loss"
    predicted_by = "by the mean of the members"

    @property
    def intervals(self) -> pd.DataFrame | None:
        """Test samples with their prediction intervals; None where the run has none."""
        table = self.residuals
        return table if table is not None and len(table) and {*INTERVALS} <= {*table} else None

    def _answer(self) -> tuple[str, str] | None:
        error = self.record.test_scores.get("neg_mean_absolute_error")
        return None if error is None else ("mean", f"is off by {significant(-error)} on average")

    def cards(self) -> list[Card]:
        """Cards for scores, prediction intervals and deferral."""
        record, n_test = self.record, self.record.dataset.n_test
        cards = self.test_score_cards()
        if (mean := record.members_mean_test_rmse) is not None:
            best = significant(record.members_best_test_rmse)
            note = f"root mean squared error, mean; best {best}"
            cards.append(Card("of a single member", significant(mean), note))
        cards += self.nested_cards(measure_of("r2"), " of the mean")
        if self.intervals is not None and record.intervals is not None:
            cards += interval_cards(self.intervals, record.intervals.confidence)
        if (rule := record.deferral) is not None and n_test:
            width = significant(rule.width)
            note = f"of {n_test:,} test samples, with intervals wider than {width}"
            if (error := rule.mean_absolute_error) is not None:
                note += f"; the others are off by {significant(error)} on average"
            cards.append(Card("deferred to a human", f"{n_test - rule.n_kept:,}", note))
        return [*cards, *self.baseline_cards(), *strategy_cards(self.metadata)]

    def _trust(self) -> Section:
        table, intervals, parts = self.intervals, self.record.intervals, list[Part | None]()
        if table is not None and intervals is not None:
            confidence, rule = f"{100 * intervals.confidence:.4g}", self.record.deferral
            rows = count(intervals.n_rows, "training row")
            words = INTERVAL_WORDS.format(confidence=confidence, rows=rows)
            if n := intervals.n_drawn_by_all:
                words += f" {count(n, 'row')} that every member drew have none."
            deferral = kept_numbers_chart(table, None if rule is None else rule.width)
            parts = [Text(words), intervals_chart(table, intervals.confidence), deferral]
        return Section("intervals", "When not to trust a prediction", parts, link="Intervals")


def calibration_bins(predictions: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of predictions, in ``N_BINS`` bins of equal width by the certainty of the mean.

    Parameters
    ----------
    predictions : DataFrame
        With the columns ``true``, ``predicted_by_mean`` and ``certainty_of_mean``.

    Returns
    -------
    DataFrame
        A row for each bin that is not empty: mean ``certainty``, the fraction that is ``right``,
        the ends of its 95 % interval (``low``, ``high``) and the number of samples (``n``).

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, On calibration of modern neural networks,
    ICML 2017.
    """
    certainty = predictions["certainty_of_mean"]
    right = predictions["true"] == predictions["predicted_by_mean"]
    bins = np.clip(np.ceil(certainty * N_BINS), 1, N_BINS)
    groups = pd.DataFrame({"certainty": certainty, "right": right}).groupby(bins)
    counts = groups["right"].agg(["sum", "size"]).to_numpy()
    low, high = np.array([wilson(int(n_right), int(n)) for n_right, n in counts]).T
    return groups.mean().assign(n=counts[:, 1], low=low, high=high)


def kept_errors(predictions: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Coverage, and error among the samples that are kept, with the most certain kept first.

    Samples of equal certainty are kept or deferred together.

    Parameters
    ----------
    predictions : DataFrame
        With the columns ``true``, ``predicted`` and ``certainty``.

    Returns
    -------
    coverage, error : float arrays of shape (n_certainties,)
        Fractions, one for each distinct certainty.
    """
    wrong = predictions["true"] != predictions["predicted"]
    counts = wrong.groupby(predictions["certainty"]).agg(["sum", "size"]).iloc[::-1].cumsum()
    n_kept = counts["size"].to_numpy(float)
    return n_kept / len(predictions), counts["sum"].to_numpy() / n_kept


def _read_explained(path: Path, shape: tuple[int, ...] | None) -> dict[str, list[ExplainedSample]]:
    if not path.is_file():
        return {}
    groups: dict[str, list[ExplainedSample]] = {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            names, group_names, X, true, probabilities, vote, deferred = (
                arrays[name] for name in ARRAYS
            )
        n_members, n_samples, n_classes = probabilities.shape
        if {*map(len, (names, group_names, X, true, vote, deferred))} != {n_samples}:
            raise ValueError("arrays of different lengths")
        if not n_members or not ((vote >= 0) & (vote < n_classes)).all():
            raise ValueError("probabilities of other samples or classes")
        if not ((probabilities >= 0) & (probabilities <= 1.0001)).all():
            raise ValueError("probabilities outside 0 and 1")
        images = [None] * n_samples if shape is None else as_pictures(X, shape)
        for i, (name, group, image) in enumerate(zip(names, group_names, images, strict=True)):
            true_code = int(true[i]) if true[i] >= 0 else None
            prediction = probabilities[:, i], int(vote[i]), bool(deferred[i])
            groups.setdefault(str(group), []).append(
                ExplainedSample(str(name), true_code, image, *prediction)
            )
    except DAMAGE as error:
        raise damaged(path, f"an .npz file of {', '.join(ARRAYS)}", one_line(error)) from None
    return groups


def draw_certainty(
    folder: Path, path: Path, picture: np.ndarray, classes: Sequence[str], *prediction: Any
) -> Path:
    """Draw the members' certainty about an image, as ``NAME-certainty.svg`` and ``.png``.

    Parameters
    ----------
    folder : Path
        Where the files go; created if it is missing.
    path : Path
        File of the image, after which the figure is named.
    picture : array
        The image, as in ``ExplainedSample``.
    classes : sequence of str
    *prediction
        Probabilities, vote and whether to defer, as in ``ExplainedSample``.

    Returns
    -------
    Path
        The SVG.

    Raises
    ------
    InputError
        The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with figure_style():
            panels = certainty_panels(
                [ExplainedSample(path.name, None, picture, *prediction)], classes
            )
            return save(panels, folder, f"{path.stem}-certainty")
    except OSError as error:
        raise InputError(
            f"{opt('output')} must be a folder that can be written, got {folder}: "
            f"{error.strerror}; name another folder"
        ) from None
