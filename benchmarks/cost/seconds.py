"""Seconds that counted walks would take on a card: arithmetic, not measurement.

An iteration of a block of ``W`` warps, ``b`` blocks to a multiprocessor, costs

    fixed(b W) * F / 1318   what every warp does whatever the members: a chain of dependent
                            instructions and two barriers, at least ``FLOOR``; from 16
                            resident warps on they wait for each other, too
    + b m / 32 * I / (4 clock * EFFICIENCY)   instructions of the passes over m members

``fixed`` goes through two points, both of 512 threads: 2.1 us for a block that has its
multiprocessor to itself, 9 us where two share one. ``F`` and ``I`` are counted from the
compiled kernel. The whole is at least what its reads of memory take: a sector of 32 bytes
for each member and row that is read, for members lie sparsely among the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.cost.cards import REFERENCE, Card

# Fixed cost of an iteration of 512 threads: resident warps -> seconds, on the reference card.
ALONE, SHARED = (16, 2.1e-6), (32, 9.0e-6)
F_THEN = 1318  # fixed instructions of the kernel those two points are of
EFFICIENCY = 0.35  # of four instructions a cycle, while others wait for memory
SECTOR = 32  # bytes
FLOAT = 4
# Seconds beside the solver's, of all gammas on a reference card: see ``other_seconds``.
MATRIX_EFFICIENCY = 0.5


@dataclass(frozen=True)
class Kernel:
    """What is known of a compiled kernel.

    Attributes
    ----------
    fixed : int
        Instructions of a warp and iteration beside those over members.
    member : float
        Instructions of a warp and iteration for each 32 members.
    row : float
        Instructions for each 32 kernel values that are taken off residuals.
    member_bytes : int
        Read from memory for a member and iteration.
    gathers : bool
        Whether each inner solve first copies its members' kernel, compact.
    """

    fixed: int
    member: float
    row: float = 25.0
    member_bytes: int = 2 * SECTOR
    gathers: bool = False


# The kernel as it was when its iterations were first counted: nvdisasm's figures for
# compute capability 9.0 and 64 registers; see ``benchmarks.cost.instructions``.
FIRST = Kernel(F_THEN, (325 + 253) / 4)


@dataclass(frozen=True)
class Shape:
    """How the solver is launched: threads of a block, blocks of a multiprocessor."""

    threads: int
    blocks: int

    @property
    def warps(self) -> int:
        return self.threads // 32


@dataclass(frozen=True)
class Walks:
    """Counts of all walks of a grid, a job for each gamma, fold and problem.

    Attributes
    ----------
    n, iterations, members, taken_off : float arrays of shape (n_jobs,)
        Rows; iterations; their mean members; rows of the kernel taken off residuals.
    solves : float array of shape (n_jobs,)
        Inner solves.
    order : int array of shape (n_jobs,)
        In which they leave the queue.
    """

    n: np.ndarray
    iterations: np.ndarray
    members: np.ndarray
    solves: np.ndarray
    taken_off: np.ndarray
    order: np.ndarray


@dataclass(frozen=True)
class Prediction:
    """Seconds of the solver.

    Attributes
    ----------
    seconds : float
    chain : float
        Of the longest job, alone on its multiprocessor: no launch is shorter.
    memory : float
        What the reads take at the card's bandwidth.
    read_bytes : float
    """

    seconds: float
    chain: float
    memory: float
    read_bytes: float


def fixed_seconds(resident_warps: int, fixed: int, card: Card) -> float:
    """Of an iteration, by the warps that share its multiprocessor."""
    (at, low), (other, high) = ALONE, SHARED
    power = math.log(high / low) / math.log(other / at)
    slowed = low * max(1.0, resident_warps / at) ** power
    return slowed * fixed / F_THEN * REFERENCE.clock / card.clock


def job_seconds(
    walks: Walks, shape: Shape, kernel: Kernel, card: Card, resident: int
) -> np.ndarray:
    """Of each job while ``resident`` blocks share its multiprocessor; (n_jobs,)."""
    issue = 4 * card.clock * EFFICIENCY
    # A pass has a group of four members for each thread, and all warps go through it.
    fixed = fixed_seconds(resident * shape.warps, kernel.fixed, card)
    members = resident * np.ceil(walks.members / 32) * kernel.member / issue
    rows = resident * walks.taken_off * walks.n / 32 * kernel.row / issue
    gathered = 0.0
    if kernel.gathers:
        gathered = resident * walks.solves * walks.members**2 / 32 * kernel.row / issue
    return walks.iterations * (fixed + members) + rows + gathered


def read_bytes(walks: Walks, kernel: Kernel) -> float:
    """That the solver reads of kernel rows."""
    members = walks.iterations * walks.members * kernel.member_bytes
    rows = walks.taken_off * walks.n * FLOAT
    gathered = walks.solves * walks.members**2 * SECTOR if kernel.gathers else 0.0
    return float((members + rows + gathered).sum())


def predict(walks: Walks, shape: Shape, kernel: Kernel, card: Card) -> Prediction:
    """Seconds of one launch over all jobs, from the queue as blocks fall free."""
    speeds = [
        job_seconds(walks, shape, kernel, card, resident) for resident in range(1, shape.blocks + 1)
    ]
    total = read_bytes(walks, kernel)
    solver = _drain(speeds, walks.order, card.multiprocessors, shape.blocks)
    memory = total / card.bandwidth
    return Prediction(max(solver, memory), float(speeds[0].max()), memory, total)


def _drain(
    speeds: Sequence[np.ndarray], order: np.ndarray, multiprocessors: int, blocks: int
) -> float:
    """Seconds until the queue is empty and the last job done.

    All blocks are as fast as those of the fullest multiprocessor: jobs end one by one and
    those that are left spread over all.
    """
    waiting = list(order[::-1])
    # Of each running job the part that is done when the common clock of parts stands so.
    left: dict[int, float] = {}
    now = 0.0
    slots = multiprocessors * blocks
    while waiting or left:
        while waiting and len(left) < slots:
            left[int(waiting.pop())] = 1.0
        resident = min(blocks, -(-len(left) // multiprocessors))
        jobs = np.fromiter(left, np.int64)
        parts = np.fromiter(left.values(), float)
        takes = speeds[resident - 1][jobs]
        ends = parts * takes
        # Until the residency can change, or jobs end that make room for others.
        step = float(ends.min())
        now += step
        for job, part in zip(jobs.tolist(), (parts - step / takes).tolist(), strict=True):
            if part <= 1e-12:
                del left[job]
            else:
                left[job] = part
    return now


def ideal(walks: Walks, shape: Shape, kernel: Kernel, card: Card) -> float:
    """Seconds were all multiprocessors full to the end: how much the order can still gain."""
    seconds = job_seconds(walks, shape, kernel, card, shape.blocks)
    return float(seconds.sum()) / (card.multiprocessors * shape.blocks)


def other_seconds(n: int, n_features: int, n_columns: float, n_gammas: int, card: Card) -> float:
    """Of distances and scoring: matrix products.

    n_columns : of coefficients that each row's kernel is multiplied with, for a gamma
    """
    products = float(n) ** 2 * n_features + n_gammas * float(n) ** 2 * n_columns
    return 2 * products / (card.float32 * MATRIX_EFFICIENCY)
