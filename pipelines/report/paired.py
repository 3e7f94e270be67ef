"""Runs that have the same folds, compared by their best candidates fold by fold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from pipelines.report.table import Cell, Columns, number_cell

if TYPE_CHECKING:
    from pipelines.report.comparison import Compared

PAIRED: Columns = [
    ("first", "text"), ("second", "text"), ("folds", "number"), ("difference", "number"),
    ("standard deviation", "number"), ("t", "number"), ("p", "number"), ("p, Holm", "number"),
]  # fmt: skip


def paired_rows(runs: Sequence[Compared]) -> list[list[Cell]]:
    """A row for each two runs whose best candidates were scored on the same folds.

    The test is the corrected resampled t-test of Nadeau and Bengio (Machine Learning 52, 2003);
    p is corrected for the number of pairs after Holm (1979).
    """
    found = []
    for one, other in combinations(runs, 2):
        if not same_folds(one, other):
            continue
        both = pd.concat(
            [errors_of_best(one), errors_of_best(other)], axis=1, join="inner"
        ).dropna()
        if len(both) < 2:
            continue
        ratio = _test_share(one)
        found.append((one.name, other.name, *corrected_t(both.to_numpy(float), ratio)))
    corrected = _holm([row[-1] for row in found])
    rows = []
    for (first, second, n, mean, std, t, p), holm in zip(found, corrected, strict=True):
        numbers = (
            (mean, f"{100 * mean:+.2f} %"), (std, f"{100 * std:.2f} %"), (t, f"{t:.2f}"),
            (p, f"{p:.3f}"), (holm, f"{holm:.3f}"),
        )  # fmt: skip
        cells = [Cell(first, first), Cell(second, second), number_cell(n, f"{n:,}")]
        rows.append(cells + [number_cell(value, text.replace("-", "−")) for value, text in numbers])
    return rows


def same_folds(first: Compared, second: Compared) -> bool:
    """Whether two runs had the same rows, and these fell into folds in the same way."""
    records = first.run.record, second.run.record
    if None in (records[0].dataset.fingerprint, records[0].options.folds):
        return False
    cuts = [
        (
            record.dataset.fingerprint, record.options.folds, record.options.seed,
            getattr(record.options, "cv", None) or "auto",
        )
        for record in records
    ]  # fmt: skip
    return cuts[0] == cuts[1] and len({record.command for record in records}) == 1


def errors_of_best(compared: Compared) -> pd.Series:
    """The error, or else 1 less the score, of the best candidate on each fold."""
    cells, best = compared.run.cells, compared.run.record.best
    place = [name for name in compared.kind.place if name in cells and name != "fold"]
    values: dict[str, Any] = {} if best is None else best.model_dump()
    own = [name for name in place if name in values]
    if cells.empty or not own or "fold" not in cells:
        return pd.Series(dtype=float)
    at = np.logical_and.reduce(
        [
            np.isclose(cells[name], values[name], rtol=1e-9, atol=0)
            if pd.api.types.is_numeric_dtype(cells[name])
            else (cells[name] == values[name]).to_numpy()
            for name in own
        ]
    )
    chosen = cells[at]
    has_error = "error" in chosen and chosen["error"].notna().any()
    errors = chosen["error"] if has_error else 1 - chosen["score"]
    return pd.Series(errors.to_numpy(float), index=chosen["fold"].to_numpy())


def _test_share(compared: Compared) -> float:
    """Validation rows for each training row: folds share most of what they train on."""
    n_folds = compared.run.record.options.folds or 2
    return 1.0 / (n_folds - 1)


def corrected_t(errors: np.ndarray, ratio: float) -> tuple[int, float, float, float, float]:
    """Number, mean and standard deviation of the differences, t and two-sided p.

    Parameters
    ----------
    errors : float array of shape (n_folds, 2), of the first and the second
    ratio : validation rows for each training row
    """
    differences = errors[:, 0] - errors[:, 1]
    n, mean = len(differences), float(differences.mean())
    spread = float(differences.std(ddof=1))
    if spread < 1e-12:  # no doubt is left to test
        t, p = (0.0, 1.0) if abs(mean) < 1e-12 else (math.nan, math.nan)
    else:
        t = mean / (spread * math.sqrt(1 / n + ratio))
        p = float(2 * student.sf(abs(t), n - 1))
    return n, mean, float(differences.std()), t, p


def _holm(p_values: Sequence[float]) -> list[float]:
    known = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    corrected, most = list(p_values), 0.0
    for step, (p, i) in enumerate(known):
        corrected[i] = most = max(most, min(1.0, p * (len(known) - step)))
    return corrected
