"""The binary problems of a search as flat tables that a kernel reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.svm.cuda.smo import ENTRY_COLUMNS, SIZE
from pipelines.svm.problems import ClassWeight, Layout, Problem, class_factors


@dataclass(frozen=True)
class Table:
    """One entry for each binary problem on a fold, fold by fold; see ``cuda_smo.smo_kernel``.

    entries : int64 (n_entries, 7); factors : float64 (n_entries, n_pull_classes)
    columns, out_rows : int32 (n_flat,); signed : float64 (n_flat,)
    one_sided : float64 (n_entries,), what an entry without rows of one side
        decides for every row, nan elsewhere
    """

    entries: np.ndarray
    factors: np.ndarray
    columns: np.ndarray
    out_rows: np.ndarray
    signed: np.ndarray
    one_sided: np.ndarray

    @property
    def largest(self) -> int:
        return int(self.entries[:, SIZE].max(initial=1))


def class_starts(layout: Layout, classes: Sequence[int]) -> np.ndarray:
    """Where each of some classes begins when their rows follow each other.

    Returns int64 (len(classes) + 1,)
    """
    sizes = np.diff(layout.starts)[list(classes)]
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def sorted_rows(layout: Layout, classes: Sequence[int]) -> np.ndarray:
    """Sorted numbers of the rows of some classes, int64."""
    return np.concatenate([np.arange(*layout.starts[c : c + 2]) for c in classes])


def make_table(
    layout: Layout,
    problems: Sequence[Problem],
    weights: np.ndarray,
    class_weight: ClassWeight,
    classes: Sequence[int],
) -> Table:
    """Problems over ``classes``, on shared products of only those classes' rows.

    weights : float64 (n_folds, n), of all sorted rows
    """
    rows_of_classes, starts = sorted_rows(layout, classes), class_starts(layout, classes)
    number = {code: at for at, code in enumerate(classes)}
    entries, factors, one_sided = [], [], []
    columns, out_rows, signed = [], [], []
    offset = 0
    for fold, weight in enumerate(weights):
        for problem in problems:
            sides = classes if problem.second is None else (problem.first, problem.second)
            inside = np.concatenate([np.arange(*starts[number[c] : number[c] + 2]) for c in sides])
            inside = np.sort(inside)
            places = inside[weight[rows_of_classes[inside]] > 0]
            rows = rows_of_classes[places]
            factor = class_factors(layout, problem, weight, class_weight)
            own = layout.codes[rows] == problem.first
            n_first = int(np.count_nonzero(own))
            sided = np.nan
            if n_first in (0, rows.size):
                # As on the CPU: every row is decided for the side that is there.
                absent = -1.0 if problem.second is not None else -np.inf
                sided = 1.0 if n_first else absent
            second = -1 if problem.second is None else number[problem.second]
            to = (problem.first,) * 2 if second < 0 else (problem.second, problem.first)
            entries.append([offset, rows.size, fold, number[problem.first], second, *to])
            factors.append(factor[list(classes)])
            one_sided.append(sided)
            columns.append(places)
            out_rows.append(rows)
            signed.append(np.where(own, 1.0, -1.0) * weight[rows] * factor[layout.codes[rows]])
            offset += rows.size
    return Table(
        np.array(entries, np.int64).reshape(-1, ENTRY_COLUMNS), np.array(factors),
        np.concatenate(columns).astype(np.int32), np.concatenate(out_rows).astype(np.int32),
        np.concatenate(signed), np.array(one_sided),
    )  # fmt: skip


def order_jobs(table: Table, gammas: np.ndarray) -> np.ndarray:
    """Every gamma with every two-sided entry, those expected to last longest first.

    The time of an iteration grows with the rows, and their number with the rows
    and towards small gammas.

    Returns int32 (n_jobs, 2), gamma and entry
    """
    entries = np.flatnonzero(np.isnan(table.one_sided))
    g, e = (axis.ravel() for axis in np.meshgrid(np.arange(len(gammas)), entries, indexing="ij"))
    order = np.lexsort((e, gammas[g], -table.entries[e, SIZE]))
    return np.ascontiguousarray(np.stack([g, e], axis=1)[order].astype(np.int32))
