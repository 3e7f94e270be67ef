"""The binary problems of a search as flat tables, and the launches that solve them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.data.placement import to_host
from pipelines.svm.cuda.block import WARP
from pipelines.svm.cuda.gpu import RESERVED_SHARED, Limits, launch, synchronise
from pipelines.svm.cuda.hard import PRODUCTS, ROWS, hard_shape
from pipelines.svm.cuda.kernel_values import pulls_kernel
from pipelines.svm.cuda.smo import (
    C_NUMBER,
    ENTRY_COLUMNS,
    FIRST,
    JOB,
    MEMBER_BYTES,
    RECORD,
    SECOND,
    SIZE,
    fixed_shared_bytes,
    matrix_shape,
    members_width,
    smo_kernel,
)
from pipelines.svm.kernel import Kernel
from pipelines.svm.search import Layout, PathSearch
from pipelines.svm.solutions import Solutions

# The most members of an inner solve, as on the CPU: their kernel takes 64 MiB.
_MOST_MEMBERS = 4096

# The most members of a hard problem: their kernel and its factor take 100 MiB, if memory has room
# for that. With one class against the rest of 60,000 images, 1,900 rows are free at the largest C.
_MOST_HARD_MEMBERS = 2560

# Kernel values that a launch adds up, for the sums that paths start from: half a second on the
# smallest GPUs.
_MOST_VALUES = 1 << 32


@dataclass(frozen=True)
class Table:
    """An entry for each binary problem on a fold, fold by fold; see ``smo_kernel``.

    Attributes
    ----------
    entries : int64 array of shape (n_entries, 7)
    factors : float64 array of shape (n_entries, n_pull_classes)
    columns, out_rows : int32 arrays of shape (n_flat,)
    signed : float64 array of shape (n_flat,)
    one_sided : float64 array of shape (n_entries,)
        The decision value of every row for an entry without training rows of one side; NaN for
        the others.
    """

    entries: np.ndarray
    factors: np.ndarray
    columns: np.ndarray
    out_rows: np.ndarray
    signed: np.ndarray
    one_sided: np.ndarray


def class_starts(layout: Layout, classes: Sequence[int]) -> np.ndarray:
    """Where each of these classes begins in their concatenated rows, int64 (len(classes) + 1,)."""
    sizes = np.diff(layout.starts)[list(classes)]
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def sorted_rows(layout: Layout, classes: Sequence[int]) -> np.ndarray:
    """Numbers of the sorted rows of some classes, int64."""
    return np.concatenate([np.arange(*layout.starts[c : c + 2]) for c in classes])


def make_table(search: PathSearch, numbers: Sequence[int], classes: Sequence[int]) -> Table:
    """The table of some problems of a search, on products of the rows of ``classes`` only."""
    layout, weights = search.layout, search.weights
    rows_of_classes, starts = sorted_rows(layout, classes), class_starts(layout, classes)
    number = {code: at for at, code in enumerate(classes)}
    entries, factors, one_sided = [], [], []
    columns, out_rows, signed, offset = [], [], [], 0
    for fold, weight in enumerate(weights):
        for i in numbers:
            problem = search.problems[i]
            sides = classes if problem.second is None else (problem.first, problem.second)
            positions = np.concatenate(
                [np.arange(*starts[number[c] : number[c] + 2]) for c in sides]
            )
            positions = np.sort(positions)
            places = positions[weight[rows_of_classes[positions]] > 0]
            rows = rows_of_classes[places]
            factor = search.factors(i, fold)
            is_first = layout.codes[rows] == problem.first
            n_first = int(np.count_nonzero(is_first))
            sided_value = np.nan
            if n_first in (0, rows.size):
                # As on the CPU: every row gets the side that has training rows.
                absent = -1.0 if problem.second is not None else -np.inf
                sided_value = 1.0 if n_first else absent
            second = -1 if problem.second is None else number[problem.second]
            other_classes = (problem.first,) * 2 if second < 0 else (problem.second, problem.first)
            entries.append([offset, rows.size, fold, number[problem.first], second, *other_classes])
            factors.append(factor[list(classes)])
            one_sided.append(sided_value)
            columns.append(places)
            out_rows.append(rows)
            signed.append(np.where(is_first, 1.0, -1.0) * weight[rows] * factor[layout.codes[rows]])
            offset += rows.size
    return Table(
        np.array(entries, np.int64).reshape(-1, ENTRY_COLUMNS),
        np.array(factors),
        np.concatenate(columns).astype(np.int32),
        np.concatenate(out_rows).astype(np.int32),
        np.concatenate(signed),
        np.array(one_sided),
    )


def order_jobs(table: Table, gammas: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Pair every gamma with every two-sided entry, those expected to take longest first.

    All blocks wait for the one that ends last. Where gamma times the distance of two rows is small,
    classes whose centres are near each other take many iterations. Where it is large every row
    becomes a support vector, far from all others: problems are alike, and an iteration visits most
    rows. The formula was fitted to iterations counted on 2,000 to 12,000 rows of MNIST, 12 gammas
    from 1e-6 to 1e-2 and 24 C from 1e-3 to 1e6: if every iteration took the same time, 264 blocks
    would end within 3 % of the least possible time, for 5 folds of one-vs-one within 2 % (most rows
    first: 4 to 17 %).

    Parameters
    ----------
    table : Table
    gammas : array of shape (n_gammas,)
    distances : float64 array of shape (n_classes, n_classes)
        Mean squared distances between the rows of each pair of classes, from ``class_distances``.

    Returns
    -------
    int32 array of shape (n_jobs, 2)
        Gamma and entry of each job.
    """
    within_class, mean = distances.diagonal(), distances.mean()
    gaps = distances - (within_class[:, None] + within_class) / 2
    np.fill_diagonal(gaps, np.inf)
    # A class against the rest is as hard as its nearest neighbour makes it.
    first, second = table.entries[:, FIRST], table.entries[:, SECOND]
    gaps = np.where(second < 0, gaps.min(axis=1)[first], gaps[first, second])
    level = gaps[np.isfinite(gaps)].mean() if np.isfinite(gaps).any() else 1.0
    hardness = np.maximum(gaps / max(level, 1e-300), 1e-3) ** -1.5
    reach = (np.asarray(gammas, np.float64) * mean)[:, None]
    effort = table.entries[:, SIZE] * (hardness / (1 + 6 * reach) + 0.2 + 0.1 * reach)
    effort[:, ~np.isnan(table.one_sided)] = -1
    order = np.argsort(-effort, axis=None, kind="stable")[: np.count_nonzero(effort >= 0)]
    return np.ascontiguousarray(np.stack(np.unravel_index(order, effort.shape), 1).astype(np.int32))


@dataclass(frozen=True)
class Launching:
    """The configuration of the solver's launches.

    Attributes
    ----------
    block_size : int
        Threads per block.
    blocks_per_multiprocessor : int
        How many blocks are resident on a multiprocessor: more of them hide each other's waits, and
        leave less shared memory for each.
    capacity : int or None
        The most members of an inner solve; None for as many as shared memory holds, up to 4,096. If
        more rows violate optimality, the worst are taken. Far fewer members than free multipliers
        cost many iterations where gamma is small.
    most_blocks : int or None
        The most blocks of a launch; None for as many as are resident together.
    hard_members : int or None
        The most members of an inner solve of a hard problem; None for up to 2,560, 0 for SMO alone.
    seconds : float
        After this time a launch ends, and the next one continues: a driver kills what occupies the
        GPU of a display for some seconds, and the host notices an interrupt only between launches.
    """

    block_size: int = 128
    blocks_per_multiprocessor: int = 4
    capacity: int | None = None
    most_blocks: int | None = None
    hard_members: int | None = None
    seconds: float = 0.5

    @classmethod
    def for_rows(cls, largest: int) -> "Launching":
        """The configuration for binary problems of up to ``largest`` rows.

        Each warp has the fixed cost of an iteration, and a block waits at its two barriers: some
        hundred members need few warps, and other blocks to fill the multiprocessor meanwhile.
        Larger problems have more free multipliers, which need shared memory, and passes over more
        rows, which need warps. With 512 threads on a multiprocessor no register is spilled in the
        loops over members.
        """
        if largest <= 512:
            return cls(32, 16)
        return cls(128, 4) if largest <= 1 << 14 else cls(256, 2)

    def members(self, limit: Limits, largest: int) -> int:
        """The size of a working set, for problems with ``largest`` rows."""
        block_bytes = (
            limit.shared_multiprocessor // self.blocks_per_multiprocessor - RESERVED_SHARED
        )
        room = min(limit.shared_block, block_bytes) - fixed_shared_bytes(self.block_size)
        room = max(0, room) // MEMBER_BYTES
        fit = room // self.block_size * self.block_size
        n_wanted = _MOST_MEMBERS if self.capacity is None else self.capacity
        return int(max(2, min(n_wanted, fit, largest)))

    def hard_width(self, members: int, kernel: Kernel) -> int:
        """How many members a hard problem has room for; 0 for SMO alone."""
        n_wanted = _MOST_HARD_MEMBERS if self.hard_members is None else self.hard_members
        if n_wanted == 0 or not kernel.is_definite:
            return 0
        return members_width(min(n_wanted, members), self.block_size)

    def registers(self, limit: Limits) -> int:
        """Registers per thread with which all blocks are resident; a multiple of 8."""
        threads = self.block_size * self.blocks_per_multiprocessor
        return max(32, min(255, limit.registers // threads // 8 * 8))

    def n_blocks(self, limit: Limits, n_jobs: int) -> int:
        """The number of blocks to launch for ``n_jobs`` problems."""
        resident = limit.n_multiprocessors * self.blocks_per_multiprocessor
        return max(1, min(resident, n_jobs, self.most_blocks or resident))


def class_distances(shared: Any, starts: np.ndarray, kernel: Kernel, xp: Any) -> np.ndarray:
    """Mean squared distances between the rows of each pair of classes, on the host.

    Parameters
    ----------
    shared : float32 array of shape (n, n)
        Products of the rows.
    starts : int64 array, from ``class_starts``
    kernel : Kernel
    xp : module

    Returns
    -------
    float64 array of shape (n_classes, n_classes)
    """
    sizes = np.diff(starts)
    weights = np.zeros((starts[-1], sizes.size), np.float32)
    weights[np.arange(starts[-1]), np.repeat(np.arange(sizes.size), sizes)] = np.repeat(
        1 / np.maximum(sizes, 1), sizes
    )
    weights = xp.asarray(weights)
    class_means = to_host(weights.T @ (shared @ weights)).astype(np.float64)
    if kernel.of_distances:
        return class_means
    everywhere = xp.arange(len(shared))
    mean_norms = to_host(weights.T @ shared[everywhere, everywhere]).astype(np.float64)
    return mean_norms[:, None] + mean_norms - 2 * class_means


def _share_done(queue: np.ndarray, paused: np.ndarray, n_jobs: int, n_C: int) -> float:
    """The fraction of the jobs' C that are solved; 1.0 once no job waits or is paused."""
    paused_jobs = paused[paused[:, JOB] > 0]
    n_ended = min(int(queue[0]), n_jobs) - len(paused_jobs)
    return (n_ended + float(paused_jobs[:, C_NUMBER].sum()) / n_C) / n_jobs


def solve_table(
    search: PathSearch,
    numbers: Sequence[int],
    classes: Sequence[int],
    shared: Any,
    exact: Any,
    gammas: np.ndarray,
    coefficients: Any,
    out: list[Solutions],
    xp: Any,
    launching: Launching,
    limit: Limits,
) -> Iterator[float]:
    """Solve some problems on every fold for every gamma.

    Parameters
    ----------
    search : PathSearch
    numbers : sequence of int
        Numbers of the problems.
    classes : sequence of int
        The classes of these problems.
    shared : float32 array of shape (m, m)
        Products of the rows of ``classes``.
    exact : array or None
        The source of their values in double precision, see ``hard``; None for SMO alone.
    gammas : array of shape (n_gammas,)
    coefficients : float32 array of shape (n_gammas, n_folds, n_classes, n_C, n)
        Output; all 0 at first.
    out : list of Solutions, one for each gamma
        Output; all but ``support`` is written.
    xp : module
    launching : Launching
    limit : Limits

    Yields
    ------
    float
        The fraction done, after each launch has ended on the device.
    """
    table, settings, kernel = make_table(search, numbers, classes), search.settings, search.kernel
    n_gammas, n_entries, n_C = len(gammas), len(table.entries), search.Cs.size
    figures = xp.zeros((n_gammas, n_entries, 2, n_C), np.float64)
    counts = xp.zeros((n_gammas, n_entries, 2, n_C), np.int64)
    solved = xp.ones((n_gammas, n_entries), np.int64)
    starts = class_starts(search.layout, classes)
    jobs = order_jobs(table, gammas, class_distances(shared, starts, kernel, xp))
    if len(jobs):
        weights = np.ascontiguousarray(search.weights[:, sorted_rows(search.layout, classes)])
        pulls = xp.empty((n_gammas, len(weights), len(classes), len(shared)), np.float64)
        of_search = [
            xp.asarray(starts),
            xp.asarray(weights),
            xp.asarray(gammas, dtype=np.float32),
            np.float32(kernel.coef0),
            kernel.degree,
        ]
        n_rows = max(1, _MOST_VALUES // (weights.size * n_gammas))
        for first in range(0, len(shared), n_rows):
            if first:
                synchronise(xp)
                yield 0.0
            launch(
                pulls_kernel(kernel.name),
                (min(n_rows, len(shared) - first), n_gammas),
                WARP * min(len(weights), max(1, launching.block_size // WARP)),
                [shared, *of_search, first, pulls],
            )
        n_blocks, largest = launching.n_blocks(limit, len(jobs)), int(table.entries[:, SIZE].max())
        capacity = launching.members(limit, largest)
        width = members_width(capacity, launching.block_size)
        newton, hard_width = "", 1
        if exact is not None:
            newton = ROWS if exact.dtype == np.float64 else PRODUCTS
            hard_width = launching.hard_width(capacity, kernel)
        kernel_of_blocks = smo_kernel(
            kernel.name, launching.block_size, launching.registers(limit), newton
        )
        queue, paused = xp.zeros(1, np.int32), xp.zeros((n_blocks, RECORD), np.float64)
        arguments = [
            shared,
            *of_search[2:],
            xp.asarray(search.Cs),
            settings.tol,
            settings.max_iter,
            xp.asarray(jobs),
            queue,
            int(launching.seconds * 1e9),
            paused,
            xp.asarray(table.entries),
            xp.asarray(table.factors),
            xp.asarray(table.columns),
            xp.asarray(table.out_rows),
            xp.asarray(table.signed),
            pulls,
            capacity,
            width,
            xp.empty((n_blocks, *matrix_shape(width)), np.float32),
            xp.zeros((1, 1), np.float64) if exact is None else exact,
            xp.asarray(gammas, dtype=np.float64),
            kernel.coef0,
            xp.empty((n_blocks if newton else 1, *hard_shape(hard_width)), np.float64),
            xp.empty((n_blocks, 4, largest), np.float64),
            xp.empty((n_blocks, 3, largest), np.int32),
            coefficients,
            figures,
            counts,
            solved,
        ]
        done = 0.0
        while done < 1:
            launch(
                kernel_of_blocks, n_blocks, launching.block_size, arguments, width * MEMBER_BYTES
            )
            done = _share_done(to_host(queue), to_host(paused), len(jobs), n_C)
            yield done
    figures, counts, solved = to_host(figures), to_host(counts), to_host(solved)
    is_decided = ~np.isnan(table.one_sided)
    figures[:, is_decided, 0] = table.one_sided[is_decided][:, None]
    # Entries are folds x problems.
    figures, counts, solved = (
        array.reshape(n_gammas, len(search.weights), len(numbers), *array.shape[2:])
        for array in (figures, counts, solved)
    )
    for g, solutions in enumerate(out):
        solutions.intercepts[:, numbers] = figures[g, :, :, 0]
        solutions.objectives[:, numbers] = figures[g, :, :, 1]
        solutions.iterations[:, numbers] = counts[g, :, :, 0]
        solutions.status[:, numbers] = counts[g, :, :, 1]
        solutions.solved[:, numbers] = solved[g]
