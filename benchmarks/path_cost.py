"""What the study's grid would take on a GPU, by count: ``python -m benchmarks.path_cost``.

The GPU's walk was replayed on the CPU on subsets of MNIST, and its iterations counted (``COUNTS``),
and those and Newton's steps where it is hard (``NEWTON``). They are grown to 60,000 rows and
laid out as the launch that the program makes: its blocks, members and order. Arithmetic: no card
was measured, a factor of two either way.
"""

from __future__ import annotations

import json
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.keep import RESULTS, markdown_table
from pipelines.svm.cuda.gpu import Limits
from pipelines.svm.cuda.launches import Launching, Table, order_jobs
from pipelines.svm.cuda.memory import plan_memory
from pipelines.svm.cuda.smo import MEMBER_BYTES, members_width
from pipelines.svm.kernel import Kernel

COUNTS = Path(RESULTS) / "2026-11-24-path-counts.json"
NEWTON = Path(RESULTS) / "2026-11-28-path-counts-newton.json"
ROWS, N_FOLDS, N_C = 60_000, 5, 24
LARGEST = {"ovo": 13_000, "ovr": ROWS}  # rows of a problem: the two largest classes, or all

# An iteration's fixed part, reckoned for a first kernel of ``_FIRST`` instructions on an H200: a
# block of 16 warps alone on its multiprocessor, and 32 warps in two.
_ALONE, _SHARED, _FIRST = (16, 2.1e-6), (32, 9.0e-6), 1318
# Instructions that a warp issues, compute capability 9.0, rbf: an iteration, by threads; for each
# 32 members of it; for each 32 kernel values. And how many of four a cycle are issued.
_FIXED, _MEMBERS, _VALUES, _ISSUED = {128: 437, 256: 463}, 79, 26, 4 * 0.35
# An iteration of the kernel that has Newton's method beside it, more. And of a problem that is
# hard: for each 32 values in double precision, for each 128 multiplications
# of its factor, and for each 32 numbers that a step reads of the factor to solve for its
# directions, to turn it, and of the kernel for its effect. What one warp does while the others
# wait for it: for each column solved backward, for each four columns forward or turned.
_BESIDE = 14
_EXACT, _FACTOR, _BACK, _TURNED, _EFFECT = 90, 36, 35, 62, 14
_COLUMN, _PANEL, _TURN = 235, 450, 2275
# Bytes a cycle that a multiprocessor is taken to get where a step reads: half of what its way to
# the second-level cache has.
_BYTES = 32


class Card(NamedTuple):
    """Limits of a launch; bytes, clock in Hz, bytes and float32 operations a second (SXM)."""

    limits: Limits
    free_bytes: int
    clock: float
    bandwidth: float
    float32: float


CARDS = {
    "A100": Card(
        Limits(108, 163 << 10, 164 << 10, 1 << 16, True), 78 << 30, 1.41e9, 2.04e12, 19.5e12
    ),
    "H200": Card(
        Limits(132, 227 << 10, 228 << 10, 1 << 16, True), 130 << 30, 1.98e9, 4.8e12, 67e12
    ),
}


def grown(records: list[dict[str, Any]]) -> np.ndarray:
    """Counts of the first record's jobs at ``ROWS`` rows.

    From one record to the next each gamma's counts grow as in the problems that both have, beyond
    the last as before it.

    Returns float64 (n_jobs, 8 or more): log10 of gamma, and the columns of ``COUNTS``: problem,
    rows, solutions, inner solves, iterations, members times iterations, rows taken off the
    residuals; and of ``NEWTON`` what ``_Hard`` names
    """
    tables = []
    for record in records:
        table = np.array(record["jobs"], np.float64)
        table[:, 0] = np.log10(np.array(record["gammas"])[table[:, 0].astype(int)]).round(6)
        tables.append(table)
    jobs, sizes = tables[0].copy(), [*(record["n_train"] for record in records), ROWS]
    for at, (low, high) in enumerate(pairwise(sizes)):
        if at + 1 < len(tables):
            old, new = tables[at : at + 2]
            gammas, powers = np.unique(new[:, 0]), []
            for gamma in gammas:
                after = new[np.isclose(new[:, 0], gamma, atol=1e-4)]
                before = old[np.isclose(old[:, 0], gamma, atol=1e-4)]
                before = before[np.isin(before[:, 1], after[:, 1])]
                ratio = np.maximum(1, after[:, 4:].sum(0)) / np.maximum(1, before[:, 4:].sum(0))
                powers.append(np.log(ratio) / np.log(sizes[at + 1] / low))
        for k, power in enumerate(np.transpose(powers)):
            jobs[:, 4 + k] *= (high / low) ** np.interp(jobs[:, 0], gammas, power)
        jobs[:, 2] *= high / low
    return jobs


class _Hard(NamedTuple):
    """What each job takes where it is hard; see ``newton`` for the parts of a step.

    values, rows : of the kernel in double precision, in working sets and taken off residuals
    free, squares, effects : sums over steps of free rows, their squares, and times the members
    made : multiplications of the factor; turns, turned : panels of rotations, and numbers turned
    steps, followed : and those of which the factor followed without being solved forward
    """

    values: np.ndarray
    rows: np.ndarray
    steps: np.ndarray
    followed: np.ndarray
    free: np.ndarray
    squares: np.ndarray
    effects: np.ndarray
    factor_entries: np.ndarray
    turns: np.ndarray
    turned: np.ndarray

    def alone(self) -> np.ndarray:
        """Instructions that one warp issues while the others wait for it."""
        anew = 1 - self.followed / np.maximum(1, self.steps)
        forward = anew * (self.free / 4 * _PANEL + self.squares / 256 * _FACTOR)
        return self.free * _COLUMN + forward + self.turns * _TURN

    def shared(self, n: np.ndarray) -> np.ndarray:
        """Instructions of all warps, for problems of n rows."""
        issued = (self.values + self.rows * n) * _EXACT + self.factor_entries / 4 * _FACTOR
        issued += self.squares / 2 * _BACK + self.turned * _TURNED + self.effects * _EFFECT
        return issued / 32

    def read(self, n: np.ndarray) -> np.ndarray:
        """Bytes: of a value in double precision a single one twice."""
        doubles = self.values + self.rows * n + self.squares + self.effects
        return 8 * (doubles + self.factor_entries / 4 + 2 * self.turned)


def _finished(jobs: np.ndarray, decision: str) -> tuple[np.ndarray, _Hard]:
    """Return ``grown`` jobs as they are where Newton's method finishes what is hard, and its part.

    Of gammas that were not counted between those that were; larger ones are left to SMO alone.
    """
    counted = grown(json.loads(NEWTON.read_text())[decision])
    jobs, hard = jobs.copy(), np.zeros((len(jobs), len(_Hard._fields)))
    gammas = np.unique(counted[:, 0])
    for at, job in enumerate(jobs):
        counts = counted[counted[:, 1] == job[1]]
        if job[0] <= gammas[-1] + 1e-4:
            counts = counts[np.argsort(counts[:, 0])]
            columns = np.log1p(counts[:, 4:].T)
            both = np.expm1([np.interp(job[0], counts[:, 0], column) for column in columns])
            jobs[at, 4:], hard[at] = both[:4], both[4:]
    return jobs, _Hard(*hard.T)


def predict(
    decision: str, name: str, newton: bool = True, one_triangle: bool = False
) -> dict[str, float]:
    """Return a launch's threads, blocks, members, bytes of shared memory, jobs, and seconds.

    newton : whether Newton's method finishes what is hard
    one_triangle : as if one triangle of a working set's kernel were read, and written twice
    """
    card, kept = CARDS[name], json.loads(COUNTS.read_text())
    records, distances = kept[decision], np.array(kept["distances"])
    gammas = np.array(records[0]["gammas"])
    sides = combinations(range(10), 2) if decision == "ovo" else [(a, -1) for a in range(10)]
    launching = Launching.for_rows(LARGEST[decision])
    threads, blocks = launching.block_size, launching.blocks_per_multiprocessor
    members = launching.members(card.limits, LARGEST[decision])
    n_sm = card.limits.n_multiprocessors
    plan = plan_memory(
        np.full(10, ROWS // 10),
        784,
        N_C,
        len(gammas),
        N_FOLDS,
        decision == "ovo",
        card.free_bytes,
        n_blocks=n_sm * blocks,
        members=members,
        block_size=threads,
        hard_members=launching.hard_width(members, Kernel()) if newton else 0,
    )

    jobs = grown(records)
    jobs = jobs[np.lexsort((jobs[:, 1], jobs[:, 0]))]
    hard = _Hard(*np.zeros((len(_Hard._fields), len(jobs))))
    if newton:
        jobs, hard = _finished(jobs, decision)
    of_fold = [[0, jobs[k, 2], 0, *side, 0, 0] for k, side in enumerate(sides)]
    entries, no = np.array(of_fold * N_FOLDS, np.int64), np.empty(0)
    table = Table(entries, no, no, no, no, np.full(len(entries), np.nan))
    g, e = order_jobs(table, gammas, distances).T
    at = g * len(of_fold) + e % len(of_fold)
    _, _, n, _, solves, iterations, visited, taken = jobs[at].T
    hard = _Hard(*(column[at] for column in hard))
    size = np.minimum(members, visited / np.maximum(1, iterations))
    gathered = solves * size**2 / (2 if one_triangle else 1)

    def seconds(resident: int) -> np.ndarray:
        """Of each job while so many blocks share its multiprocessor."""
        power = np.log(_SHARED[1] / _ALONE[1]) / np.log(_SHARED[0] / _ALONE[0])
        fixed = _ALONE[1] * max(1.0, resident * threads / 32 / _ALONE[0]) ** power
        fixed *= CARDS["H200"].clock / card.clock / _FIRST  # of an instruction
        issue = resident / (card.clock * _ISSUED)
        values = (taken * n + gathered) / 32 * _VALUES
        once = fixed * (_FIXED[threads] + (_BESIDE if newton else 0))
        chain = iterations * (once + issue * np.ceil(size / 32) * _MEMBERS)
        moved = hard.read(n) * resident / (_BYTES * card.clock)
        return chain + fixed * hard.alone() + issue * (values + hard.shared(n)) + moved

    takes = [seconds(resident) for resident in range(1, blocks + 1)]
    # Of a value that is gathered a sector is read, and it is written, once or twice.
    read = iterations * size * 8 + taken * n * 4 + gathered * 32 + hard.read(n)
    read += 2 * gathered * 4 if one_triangle else 0
    products = 2 * ROWS**2 * (784 + len(gammas) * 10 * N_C)
    return {
        "threads": threads,
        "blocks": launching.n_blocks(card.limits, len(g)),
        "members": members,
        "hard members": plan.hard_members or 0,
        "bytes": members_width(members, threads) * MEMBER_BYTES,
        "jobs": len(g),
        "solver": max(_drain(takes, n_sm, blocks), float(read.sum()) / card.bandwidth),
        "longest path alone": float(takes[0].max()),
        "all multiprocessors full": float(takes[-1].sum()) / (n_sm * blocks),
        "memory": float(read.sum()) / card.bandwidth,
        "starts": ROWS**2 * len(gammas) * N_FOLDS / 32 * _VALUES / (n_sm * card.clock * _ISSUED),
        "distances and scores": products / (card.float32 / 2),
    }


def _drain(takes: list[np.ndarray], n_multiprocessors: int, blocks: int) -> float:
    """Seconds until the last job is done; those that run share the multiprocessors evenly."""
    now, waiting, running = 0.0, 0, np.empty(0, np.int64)
    remaining = np.ones(len(takes[0]))
    while waiting < remaining.size or running.size:
        n_begun = min(remaining.size, waiting + n_multiprocessors * blocks - running.size)
        running, waiting = np.append(running, np.arange(waiting, n_begun)), n_begun
        pace = takes[min(blocks, -(-running.size // n_multiprocessors)) - 1][running]
        step = (remaining[running] * pace).min()
        remaining[running] -= step / pace
        now, running = now + step, running[remaining[running] > 1e-12]
    return float(now)


if __name__ == "__main__":
    predictions = [
        (d, name, "both" if newton else "SMO", predict(d, name, newton))
        for d, name, newton in product(LARGEST, CARDS, (False, True))
    ]
    lines = [
        [*launch, *(f"{v:,}" if isinstance(v, int) else f"{v:.1f}" for v in figures.values())]
        for *launch, figures in predictions
    ]
    print(markdown_table(["decision", "card", "method", *predictions[0][3]], lines))
