"""The binary problems of a search as flat tables that a kernel reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.svm.cuda.smo import ENTRY_COLUMNS, FIRST, SECOND, SIZE
from pipelines.svm.problems import ClassWeight, Layout, Problem, class_factors


@dataclass(frozen=True)
class Table:
    """An entry for each binary problem on a fold, fold by fold; see ``smo_kernel``.

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
    """Return where each class begins when their rows follow each other.

    Returns int64 (len(classes) + 1,)
    """
    sizes = np.diff(layout.starts)[list(classes)]
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def sorted_rows(layout: Layout, classes: Sequence[int]) -> np.ndarray:
    """Return sorted numbers of the rows of some classes, int64."""
    return np.concatenate([np.arange(*layout.starts[c : c + 2]) for c in classes])


def make_table(
    layout: Layout,
    problems: Sequence[Problem],
    weights: np.ndarray,
    class_weight: ClassWeight,
    classes: Sequence[int],
) -> Table:
    """Return problems over ``classes``, on shared products of only those classes' rows.

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


def expected_effort(table: Table, gammas: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Predict the relative cost of each entry and gamma; float64 (n_gammas, n_entries).

    Where gamma times the distance of two rows is small, classes whose centres are near each
    other take many iterations. Where it is large every row becomes a support vector, far from
    all others: problems are alike, and an iteration visits most rows. Fitted to iterations
    counted on 2,000 to 12,000 rows of MNIST, 12 gammas from 1e-6 to 1e-2 and 24 C from 1e-3 to
    1e6: if every iteration took the same time, 264 blocks would end within 3 % of the least
    time that is possible, 5 folds of one-vs-one within 2 % (most rows first: 4 to 17 %).

    distances : float64 (n_classes, n_classes), mean squared distances between the rows of
        the classes of ``class_starts``, themselves included
    """
    own, mean = distances.diagonal(), distances.mean()
    between = distances - (own[:, None] + own) / 2
    np.fill_diagonal(between, np.inf)
    # A class against the rest is as hard as its nearest neighbour makes it.
    first, second = table.entries[:, FIRST], table.entries[:, SECOND]
    between = np.where(second < 0, between.min(axis=1)[first], between[first, second])
    level = between[np.isfinite(between)].mean() if np.isfinite(between).any() else 1.0
    hardness = np.maximum(between / max(level, 1e-300), 1e-3) ** -1.5
    reach = (gammas * mean)[:, None]
    return table.entries[:, SIZE] * (hardness / (1 + 6 * reach) + 0.2 + 0.1 * reach)


def order_jobs(table: Table, gammas: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Pair every gamma with every two-sided entry, those expected to last longest first.

    What is started last is what the other blocks wait for. See ``expected_effort``.

    Returns int32 (n_jobs, 2), gamma and entry
    """
    effort = expected_effort(table, np.asarray(gammas, np.float64), distances)
    effort[:, ~np.isnan(table.one_sided)] = -1
    order = np.argsort(-effort, axis=None, kind="stable")[: np.count_nonzero(effort >= 0)]
    return np.ascontiguousarray(np.stack(np.unravel_index(order, effort.shape), 1).astype(np.int32))
