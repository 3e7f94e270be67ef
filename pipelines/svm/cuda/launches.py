"""Launches of the solver over gammas and folds, and what comes back from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.data.placement import to_host
from pipelines.svm.cuda.block_threads import WARP
from pipelines.svm.cuda.exact import MOST_FEATURES
from pipelines.svm.cuda.gpu import Limits, launch, shared_per_block
from pipelines.svm.cuda.hard import hard_shape
from pipelines.svm.cuda.kernel_values import pulls_kernel
from pipelines.svm.cuda.smo import (
    MEMBER_BYTES,
    fixed_shared_bytes,
    matrix_shape,
    members_width,
    smo_kernel,
)
from pipelines.svm.cuda.table import Table, class_starts, order_jobs
from pipelines.svm.kernel import Kernel
from pipelines.svm.problems import Layout
from pipelines.svm.search import Settings

# Members of an inner solve at most, as on the CPU: their kernel takes 64 MiB.
_MOST_MEMBERS = 4096

# Members where a problem is hard: their kernel and its factor take 16 MiB, and the factor
# about as long as 6,500 iterations of SMO.
_MOST_HARD_MEMBERS = 1024


@dataclass(frozen=True)
class Launching:
    """The configuration of a launch of the solver.

    block_size : threads of a block
    blocks_per_multiprocessor : blocks that share one; more of them hide each
        other's waits, and leave each less shared memory
    capacity : members of an inner solve at most, None for what shared memory holds up
        to 4,096; of more rows in want of change the worst are worked on. Far fewer than
        there are free multipliers cost many iterations where gamma is small
    most_blocks : of a launch, None for as many as are resident together
    hard_members : members of an inner solve where a problem is hard, at most; None for up to
        1,024, 0 for SMO alone
    """

    block_size: int = 128
    blocks_per_multiprocessor: int = 4
    capacity: int | None = None
    most_blocks: int | None = None
    hard_members: int | None = None

    @classmethod
    def for_rows(cls, largest: int) -> "Launching":
        """Configure a launch for binary problems of up to ``largest`` rows.

        An iteration's fixed cost is paid by each warp, and the wait for its two barriers
        by the block: what some hundred members need is few warps, and other blocks to fill
        the multiprocessor meanwhile. Larger problems have more free multipliers, which want
        shared memory, and passes over more rows, which want warps. At 512 threads a
        multiprocessor no register is spilled in the loops over members.
        """
        if largest <= 512:
            return cls(32, 16)
        return cls(128, 4) if largest <= 1 << 14 else cls(256, 2)

    def members(self, limit: Limits, largest: int) -> int:
        """Return the size of a working set, for problems of ``largest`` rows.

        Raises
        ------
        ValueError
            Where so many blocks leave each no shared memory for a member of each thread.
        """
        room = shared_per_block(limit, self.blocks_per_multiprocessor)
        room = max(0, room - fixed_shared_bytes(self.block_size)) // MEMBER_BYTES
        if room < self.block_size:
            raise ValueError(
                f"blocks_per_multiprocessor must leave each block shared memory for as many "
                f"members as it has threads, {self.block_size}; got "
                f"{self.blocks_per_multiprocessor}, which leave it for {room}; use fewer"
            )
        fit = room // self.block_size * self.block_size
        wanted = _MOST_MEMBERS if self.capacity is None else self.capacity
        return int(max(2, min(wanted, fit, largest)))

    def hard_width(self, members: int, n_features: int, kernel: Kernel) -> int:
        """Return how many members a hard problem has room for; 0 for SMO alone."""
        wanted = _MOST_HARD_MEMBERS if self.hard_members is None else self.hard_members
        if wanted == 0 or n_features > MOST_FEATURES or not kernel.is_definite:
            return 0
        return members_width(min(wanted, members), self.block_size)

    def registers(self, limit: Limits) -> int:
        """Return registers of a thread with which all blocks are resident; a multiple of 8."""
        threads = self.block_size * self.blocks_per_multiprocessor
        return max(32, min(255, limit.registers // threads // 8 * 8))

    def n_blocks(self, limit: Limits, n_jobs: int) -> int:
        """Return the number of blocks to launch for ``n_jobs`` problems."""
        resident = limit.n_multiprocessors * self.blocks_per_multiprocessor
        return max(1, min(resident, n_jobs, self.most_blocks or resident))


@dataclass
class Found:
    """The results of a launch; host arrays, n_gammas x n_entries first.

    intercepts, objectives : float64 (.., n_C); iterations, status : int64 (.., n_C)
    solved : int64, the number of different solutions
    visited : int64, float32 values read by SMO's iterations and between them, whole sectors
        where the rows that are worked on lie apart
    """

    intercepts: np.ndarray
    objectives: np.ndarray
    iterations: np.ndarray
    status: np.ndarray
    solved: np.ndarray
    visited: np.ndarray


def class_distances(shared: Any, starts: np.ndarray, kernel: Kernel, xp: Any) -> np.ndarray:
    """Return mean squared distances between each two classes' rows; float64, on the host.

    shared : float32 (n, n), shared products; starts : as ``class_starts`` gives them
    """
    sizes = np.diff(starts)
    share = np.zeros((starts[-1], sizes.size), np.float32)
    share[np.arange(starts[-1]), np.repeat(np.arange(sizes.size), sizes)] = np.repeat(
        1 / np.maximum(sizes, 1), sizes
    )
    share = xp.asarray(share)
    resources = to_host(share.T @ (shared @ share)).astype(np.float64)
    if kernel.of_distances:
        return resources
    everywhere = xp.arange(len(shared))
    own = to_host(share.T @ shared[everywhere, everywhere]).astype(np.float64)
    return own[:, None] + own - 2 * resources


def sum_classes(
    shared: Any, starts: np.ndarray, weights: np.ndarray, gammas: np.ndarray, kernel: Kernel,
    xp: Any, block_size: int,
) -> Any:  # fmt: skip
    """Sum the kernel times fold weights by class; float64 (n_gammas, n_folds, n_classes, n)."""
    n, n_folds = len(shared), len(weights)
    pulls = xp.empty((len(gammas), n_folds, len(starts) - 1, n), np.float64)
    threads = WARP * min(n_folds, max(1, block_size // WARP))
    launch(
        pulls_kernel(kernel.name), (n, len(gammas)), threads,
        [shared, xp.asarray(starts), xp.asarray(np.ascontiguousarray(weights)),
         xp.asarray(gammas, dtype=np.float32), np.float32(kernel.coef0), kernel.degree, pulls],
    )  # fmt: skip
    return pulls


def solve_table(
    table: Table,
    shared: Any,
    rows: Any,
    layout: Layout,
    classes: Sequence[int],
    fold_weights: np.ndarray,
    gammas: np.ndarray,
    settings: Settings,
    kernel: Kernel,
    coefficients: Any,
    xp: Any,
    launching: Launching | None,
    limit: Limits,
) -> Found:
    """Solve every entry for every gamma; adds multipliers to ``coefficients``.

    shared : float32 (m, m), shared products of the rows of ``classes``
    rows : float (m, n_features), those rows as ``prepare_rows`` gives them
    fold_weights : float64 (n_folds, m), of the same rows
    coefficients : float32 (n_gammas, n_folds, n_classes, n_C, n), zero where written
    launching : None for what suits the problems' size
    """
    launching = launching or Launching.for_rows(table.largest)
    n_gammas, n_entries, n_C = len(gammas), len(table.entries), settings.Cs.size
    figures = xp.zeros((n_gammas, n_entries, 2, n_C), np.float64)
    counts = xp.zeros((n_gammas, n_entries, 3, n_C), np.int64)
    efforts = xp.zeros((n_gammas, n_entries, 2), np.int64)
    starts = class_starts(layout, classes)
    jobs = order_jobs(table, gammas, class_distances(shared, starts, kernel, xp))
    if len(jobs):
        pulls = sum_classes(shared, starts, fold_weights, gammas, kernel, xp, launching.block_size)
        n_blocks = launching.n_blocks(limit, len(jobs))
        capacity = launching.members(limit, table.largest)
        width = members_width(capacity, launching.block_size)
        hard_width = launching.hard_width(capacity, rows.shape[1], kernel)
        nothing = xp.zeros((1, 1), np.float64)
        launch(
            smo_kernel(
                kernel.name, launching.block_size, launching.registers(limit), hard_width > 0
            ),
            n_blocks, launching.block_size,
            [shared, xp.asarray(gammas, dtype=np.float32), np.float32(kernel.coef0),
             kernel.degree, xp.asarray(settings.Cs), settings.tol, settings.max_iter,
             xp.asarray(jobs), xp.zeros(1, np.int32), xp.asarray(table.entries),
             xp.asarray(table.factors), xp.asarray(table.columns), xp.asarray(table.out_rows),
             xp.asarray(table.signed), pulls, capacity, width,
             xp.empty((n_blocks, *matrix_shape(width)), np.float32),
             xp.ascontiguousarray(rows.astype(np.float64).T) if hard_width else nothing,
             xp.asarray(gammas, dtype=np.float64), kernel.coef0,
             xp.empty((n_blocks, *hard_shape(hard_width)), np.float64) if hard_width else
             nothing[None],
             xp.empty((n_blocks, 4, table.largest), np.float64),
             xp.empty((n_blocks, 3, table.largest), np.int32),
             coefficients, figures, counts, efforts],
            width * MEMBER_BYTES,
        )  # fmt: skip
    figures, counts, efforts = to_host(figures), to_host(counts), to_host(efforts)
    decided = np.isfinite(table.one_sided) | np.isinf(table.one_sided)
    figures[:, decided, 0] = table.one_sided[decided][:, None]
    return Found(
        figures[:, :, 0], figures[:, :, 1], counts[:, :, 0], counts[:, :, 2],
        np.maximum(efforts[:, :, 0], 1), efforts[:, :, 1],
    )  # fmt: skip
