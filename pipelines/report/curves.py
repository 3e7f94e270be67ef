"""Curves of a classifier for each class: ROC, precision and recall, and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.report.charts import COLOURS, Panel, Series, dashed, dots, series_chart
from pipelines.report.parts import Chart, Folded, Listing, Part, Section, Text
from pipelines.report.style import BLUE, INK
from pipelines.report.wording import count, shorten
from pipelines.run_folder.names import DECISION_VALUES, PROBABILITIES
from pipelines.run_folder.reading import RunData, read_table
from pipelines.run_folder.schema import DAMAGE, damaged, one_line
from pipelines.run_folder.statistics import wilson

MOST_CURVES = 10  # classes up to which each has a curve; with more, only the mean is drawn
MOST_KNOTS = 200  # points that a curve is drawn through; more would only make the SVG longer
N_BINS = 10  # of the calibration curve
VALUE_FILES = {"probability": PROBABILITIES, "decision": DECISION_VALUES}
LARGEST_FILE = 500_000_000  # bytes; members' probabilities of a larger file are not read
STYLES = ("solid", (0, (6, 1.5)), (0, (2, 1)))  # beside colours, which not all readers tell apart


@dataclass(frozen=True, eq=False)
class ClassValues:
    """Probabilities or decision values of the test samples for each class.

    Attributes
    ----------
    truth : int array of shape (n_samples,)
        Codes of the true classes.
    values : float array of shape (n_samples, n_classes)
        The larger a value, the more likely the class.
    classes : int array of shape (n_classes,)
        Class code of each column of ``values``.
    names : sequence of str
        Names of all classes, by code.
    are_probabilities : bool
        Whether the values are probabilities; decision values otherwise.
    """

    truth: np.ndarray
    values: np.ndarray
    classes: np.ndarray
    names: Sequence[str]
    are_probabilities: bool

    @classmethod
    def of_run(cls, run: RunData) -> ClassValues | None:
        """Values of the best candidate of a search; None where the run has no such file."""
        for value_name, file in VALUE_FILES.items():
            table = read_table(run.path / file)
            if table is None or table.empty or "true" not in table:
                continue
            codes = {f"{value_name}_{name}": code for code, name in enumerate(run.classes)}
            columns = [name for name in table if name in codes]
            values = table[columns].to_numpy(float)
            if len(columns) < 2 or not np.isfinite(values).all():
                continue
            return cls(
                table["true"].to_numpy(int),
                values,
                np.array([codes[name] for name in columns], dtype=int),
                run.classes,
                value_name == "probability",
            )
        return None

    @classmethod
    def of_members(cls, run: RunData, file: Path) -> ClassValues | None:
        """Mean probabilities of the members of an ensemble.

        Parameters
        ----------
        run : RunData
        file : Path
            An ``.npz`` file with ``probabilities`` of shape (n_members, n_samples, n_classes).

        Returns
        -------
        ClassValues or None
            None where there is no such file, or it is larger than ``LARGEST_FILE``.

        Raises
        ------
        pipelines.errors.InputError
            The file is damaged, or holds other samples or classes.
        """
        table = run.predictions
        if table is None or table.empty or not file.is_file():
            return None
        if file.stat().st_size > LARGEST_FILE:
            return None
        try:
            with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
                values = np.asarray(arrays["probabilities"], dtype=np.float64).mean(axis=0)
            if values.shape != (len(table), len(run.classes)) or not np.isfinite(values).all():
                raise ValueError("probabilities of other samples or classes")
        except DAMAGE as error:
            rule = "an .npz file of probabilities"
            raise damaged(file, rule, one_line(error)) from None
        truth, codes = table["true"].to_numpy(int), np.arange(len(run.classes))
        return cls(truth, values, codes, run.classes, True)

    @property
    def sides(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Each class against the rest: its name, which samples are of it, and their values.

        With two classes, only the second is given, as the first is its mirror image. A class that
        none or all of the test samples belong to has no curve and is left out.
        """
        places = range(1, 2) if len(self.classes) == 2 else range(len(self.classes))
        sides = [
            (self.names[self.classes[i]], self.truth == self.classes[i], self.values[:, i])
            for i in places
        ]
        return [side for side in sides if side[1].any() and not side[1].all()]


@dataclass(frozen=True, eq=False)
class Curves:
    """ROC and precision-recall curves of one class against the rest, as scikit-learn has them.

    Attributes
    ----------
    name : str
        Name of the class.
    roc : tuple of two float arrays
        False positive rate and true positive rate.
    precision_recall : tuple of two float arrays
        Recall and precision.
    auc : float
        Area under the ROC curve.
    ap : float
        Average precision.
    fraction : float
        Fraction of the samples that are of the class: the precision of guessing.
    """

    name: str
    roc: tuple[np.ndarray, np.ndarray]
    precision_recall: tuple[np.ndarray, np.ndarray]
    auc: float
    ap: float
    fraction: float

    @classmethod
    def of(cls, name: str, is_of_class: np.ndarray, values: np.ndarray) -> Curves:
        """The curves of one class; for the parameters see ``ClassValues.sides``."""
        from sklearn import metrics

        false, true, _ = metrics.roc_curve(is_of_class, values)
        precision, recall, _ = metrics.precision_recall_curve(is_of_class, values)
        return cls(
            name,
            (false, true),
            (recall[::-1], precision[::-1]),
            float(metrics.auc(false, true)),
            float(metrics.average_precision_score(is_of_class, values)),
            float(is_of_class.mean()),
        )

    @classmethod
    def mean_of(cls, curves: Sequence[Curves]) -> Curves:
        """Mean curves of classes that all weigh the same (macro average)."""
        grid = np.linspace(0, 1, MOST_KNOTS + 1)
        true = np.mean([np.interp(grid, *class_curves.roc) for class_curves in curves], axis=0)
        # Precision falls in steps: at a given recall, its value is that of the first threshold to
        # reach it.
        steps = []
        for class_curves in curves:
            recall, precision = class_curves.precision_recall
            steps.append(precision[np.searchsorted(recall, grid).clip(max=len(recall) - 1)])
        auc, ap, class_fraction = (
            float(np.mean([getattr(class_curves, name) for class_curves in curves]))
            for name in ("auc", "ap", "fraction")
        )
        pair = (np.concatenate([[0], grid]), np.concatenate([[0], true]))
        return cls(
            "mean of all classes", pair, (grid, np.mean(steps, axis=0)), auc, ap, class_fraction
        )

    @property
    def label(self) -> str:
        """Name and areas, for the legend."""
        return f"{shorten(self.name, 20)}: AUC {self.auc:.3f}, AP {self.ap:.3f}"


def curves_section(values: ClassValues | None, has_calibration: bool = False) -> Section:
    """The section on ROC, precision and recall, and on the calibration of probabilities.

    Parameters
    ----------
    values : ClassValues or None
        None for a run without values; the section is then empty.
    has_calibration : bool, default False
        Whether the page has a calibration curve elsewhere.

    Returns
    -------
    Section
    """
    title = "ROC, precision and recall"
    section = partial(Section, "scores", title, link="ROC")
    if values is None or not (sides := values.sides):
        return section(parts=[])
    class_curves = [Curves.of(*side) for side in sides]
    shown_curves, n_classes = list(class_curves), len(values.classes)
    if len(shown_curves) > 1:
        shown_curves = [
            Curves.mean_of(class_curves),
            *(shown_curves if len(shown_curves) <= MOST_CURVES else []),
        ]
    is_calibrated = values.are_probabilities and not has_calibration
    if is_calibrated:
        title = "ROC, precision, recall and calibration"
        section = partial(Section, "scores", title, link="ROC")
    parts: list[Part | None] = [Text(_words(values, is_calibrated))]
    parts.append(_chart(values, shown_curves, is_calibrated))
    if len(class_curves) > 1:
        table = pd.DataFrame(
            {
                "class": [curves.name for curves in class_curves],
                "AUC": [curves.auc for curves in class_curves],
                "average precision": [curves.ap for curves in class_curves],
                "fraction of the samples": [curves.fraction for curves in class_curves],
            }
        )
        formats: dict[str, Any] = dict.fromkeys(("AUC", "average precision"), "{:.4f}".format)
        formats["fraction of the samples"] = lambda fraction: f"{100 * fraction:.1f} %"
        listing = Listing("Curves of classes", table, formats, tall=n_classes > MOST_CURVES)
        parts.append(Folded("As a table", [listing]))
    return section(parts=parts)


def calibration(sides: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> pd.DataFrame:
    """Calibration of probabilities in ``N_BINS`` bins of equal width, all classes together.

    Parameters
    ----------
    sides : sequence of tuples
        As ``ClassValues.sides`` returns them, with probabilities.

    Returns
    -------
    DataFrame
        A row for each bin that is not empty: the mean probability (``predicted``), the fraction of
        samples that are of the class (``observed``), the ends of its 95 % interval (``low``,
        ``high``) and the number of probabilities (``n``).
    """
    from sklearn.calibration import calibration_curve

    is_of_class = np.concatenate([side[1] for side in sides])
    probability = np.concatenate([side[2] for side in sides]).clip(0, 1)
    observed, predicted = calibration_curve(is_of_class, probability, n_bins=N_BINS)
    edges = np.linspace(0, 1, N_BINS + 1)
    counts = np.bincount(np.searchsorted(edges[1:-1], probability), minlength=N_BINS)
    counts = counts[counts > 0]
    ends = [
        wilson(round(fraction * n), int(n)) for fraction, n in zip(observed, counts, strict=True)
    ]
    low, high = np.array(ends).T
    columns = {"predicted": predicted, "observed": observed, "low": low, "high": high}
    return pd.DataFrame({**columns, "n": counts})


def _chart(values: ClassValues, shown_curves: Sequence[Curves], is_calibrated: bool) -> Chart:
    roc, precision_recall = list[Series](), list[Series]()
    for number, curves in reversed([*enumerate(shown_curves)]):  # the mean is drawn last
        style = STYLES[number // len(COLOURS) % len(STYLES)]
        look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linestyle": style}
        look |= {"linewidth": 2.4 if not number else 1.2, "zorder": 4 if not number else 3}
        roc.append(Series(*_thinned(*curves.roc), curves.label, look=look))
        recall, precision = _thinned(*curves.precision_recall)
        steps = {"drawstyle": "steps-pre"}
        precision_recall.append(Series(recall, precision, curves.label, look=look | steps))
    chance = "guessing"
    roc = [*roc[::-1], Series([0, 1], [0, 1], chance, look=dashed())]
    level = Series([0, 1], [shown_curves[0].fraction] * 2, chance, look=dashed())
    panels = [
        Panel(roc, "false positive rate", "true positive rate", "ROC"),
        Panel([*precision_recall[::-1], level], "recall", "precision", "Precision and recall"),
    ]
    caption = (
        "ROC: how much of a class is recognised (true positive rate) against how much of the "
        "others is mistaken for it (false positive rate), over all thresholds. Precision is the "
        "fraction correct of what is taken for a class, recall the fraction of the class that is "
        "recognised; of a rare class they say more than ROC."
    )
    if is_calibrated:
        bins = calibration(values.sides)
        band, label = (bins["low"], bins["high"]), "bin and its 95 % interval"
        marks = Series(bins["predicted"], bins["observed"], label, band, dots(BLUE))
        exact = Series([0, 1], [0, 1], "perfectly calibrated", look=dashed(INK))
        panels.append(
            Panel([marks, exact], "predicted probability", "observed fraction", "Calibration")
        )
        caption += (
            f" Calibration: the test samples in {N_BINS} bins of equal width of the probability; "
            "on the line, probabilities are frequencies."
        )
    areas = "; ".join(curves.label for curves in shown_curves)
    alt = f"Curves of {count(len(values.truth), 'test sample')}. {areas}."
    return Chart("class_curves", partial(series_chart, panels), caption, wide=True, alt=alt)


def _words(values: ClassValues, is_calibrated: bool) -> str:
    n_classes = len(values.classes)
    what = "probabilities" if values.are_probabilities else "decision values"
    words = f"From the {what} of the test samples. AUC is the area under the ROC curve, AP the "
    words += "average precision."
    if n_classes == 2:
        return f"{words} The curves are for class '{values.names[values.classes[1]]}'."
    words += " Each class is held against the rest; the mean counts every class the same."
    if n_classes > MOST_CURVES:
        words += f" Of more than {MOST_CURVES} classes the mean alone is drawn."
    if is_calibrated:
        words += " In the calibration the probabilities of all classes are taken together."
    return words


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of a curve: its ends and at most ``MOST_KNOTS`` others, evenly along its length."""
    if len(x) <= MOST_KNOTS:
        return x, y
    length = np.concatenate([[0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    knots = np.searchsorted(length, np.linspace(0, length[-1], MOST_KNOTS))
    indices = np.unique(np.concatenate([[0], knots, [len(x) - 1]]).clip(max=len(x) - 1))
    return x[indices], y[indices]
