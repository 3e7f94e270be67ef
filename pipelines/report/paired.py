"""Runs that have the same folds, compared by their best candidates fold by fold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipelines.report.table import Table, Value
from pipelines.run_folder.judgement import corrected_t, holm

if TYPE_CHECKING:
    from pipelines.report.comparison import Compared


def paired_table(runs: Sequence[Compared]) -> Table:
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
        errors = both.to_numpy(float)
        differences = errors[:, 0] - errors[:, 1]
        # Validation rows for each training row: folds share most of what they train on.
        ratio = 1.0 / ((one.run.record.options.folds or 2) - 1)
        mean, _, _, t, p = corrected_t(differences, ratio)
        row = one.name, other.name, len(differences), mean, float(differences.std()), t, p
        found.append(row)
    corrected = holm([row[-1] for row in found])
    rows: list[list[Value]] = []
    for (first, second, n, mean, std, t, p), p_holm in zip(found, corrected, strict=True):
        numbers = (
            (mean, f"{100 * mean:+.2f} %"), (std, f"{100 * std:.2f} %"), (t, f"{t:.2f}"),
            (p, f"{p:.3f}"), (p_holm, f"{p_holm:.3f}"),
        )  # fmt: skip
        signed = [(value, text.replace("-", "−")) for value, text in numbers]
        rows.append([first, second, (n, f"{n:,}"), *signed])
    return Table.of(
        ("first", "second", "folds", "difference", "standard deviation", "t", "p", "p, Holm"), rows
    )


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
