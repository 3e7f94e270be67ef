"""What the study's grid would take on a GPU, by count: ``python -m benchmarks.path_cost``.

The GPU's walk was replayed on the CPU on subsets of MNIST and its iterations counted (``COUNTS``).
They are grown to 60,000 rows and laid out as the launch that the program makes: its blocks,
members and order. Arithmetic: no card was measured, a factor of two either way.
"""

from __future__ import annotations

import json
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.keep import RESULTS, markdown_table
from pipelines.svm.cuda.gpu import Limits
from pipelines.svm.cuda.launches import Launching, Table, order_jobs
from pipelines.svm.cuda.smo import MEMBER_BYTES, members_width

COUNTS = Path(RESULTS) / "2026-11-24-path-counts.json"
ROWS, N_FOLDS, N_C = 60_000, 5, 24
LARGEST = {"ovo": 13_000, "ovr": ROWS}  # rows of a problem: the two largest classes, or all

# An iteration's fixed part, reckoned for a first kernel of ``_FIRST`` instructions on an H200: a
# block of 16 warps alone on its multiprocessor, and 32 warps in two.
_ALONE, _SHARED, _FIRST = (16, 2.1e-6), (32, 9.0e-6), 1318
# Instructions that a warp issues, compute capability 9.0, rbf: an iteration, by threads; for each
# 32 members of it; for each 32 kernel values. And how many of four a cycle are issued.
_FIXED, _MEMBERS, _VALUES, _ISSUED = {128: 437, 256: 463}, 79, 26, 4 * 0.35


class Card(NamedTuple):
    """Limits of a launch; clock in Hz, bytes a second, float32 operations a second (SXM)."""

    limits: Limits
    clock: float
    bandwidth: float
    float32: float


CARDS = {
    "A100": Card(Limits(108, 163 << 10, 164 << 10, 1 << 16, True), 1.41e9, 2.04e12, 19.5e12),
    "H200": Card(Limits(132, 227 << 10, 228 << 10, 1 << 16, True), 1.98e9, 4.8e12, 67e12),
}


def grown(records: list[dict[str, Any]]) -> np.ndarray:
    """Counts of the first record's jobs at ``ROWS`` rows.

    From one record to the next each gamma's counts grow as in the problems that both have, beyond
    the last as before it.

    Returns float64 (n_jobs, 8): log10 of gamma, and the columns of ``COUNTS``: problem, rows,
    solutions, inner solves, iterations, members times iterations, rows taken off the residuals
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


def predict(decision: str, name: str, one_triangle: bool = False) -> dict[str, float]:
    """Return a launch's threads, blocks, members, bytes of shared memory, jobs, and seconds.

    one_triangle : as if one triangle of a working set's kernel were read, and written twice
    """
    card, kept = CARDS[name], json.loads(COUNTS.read_text())
    records, distances = kept[decision], np.array(kept["distances"])
    gammas = np.array(records[0]["gammas"])
    sides = combinations(range(10), 2) if decision == "ovo" else [(a, -1) for a in range(10)]
    launching = Launching.for_rows(LARGEST[decision])
    threads, blocks = launching.block_size, launching.blocks_per_multiprocessor
    members = launching.members(card.limits, LARGEST[decision])

    jobs = grown(records)
    jobs = jobs[np.lexsort((jobs[:, 1], jobs[:, 0]))].reshape(len(gammas), -1, 8)
    of_fold = [[0, jobs[0, k, 2], 0, *side, 0, 0] for k, side in enumerate(sides)]
    entries, no = np.array(of_fold * N_FOLDS, np.int64), np.empty(0)
    table = Table(entries, no, no, no, no, np.full(len(entries), np.nan))
    g, e = order_jobs(table, gammas, distances).T
    _, _, n, _, solves, iterations, visited, taken = jobs[g, e % jobs.shape[1]].T
    size = np.minimum(members, visited / np.maximum(1, iterations))
    gathered = solves * size**2 / (2 if one_triangle else 1)

    def seconds(resident: int) -> np.ndarray:
        """Of each job while so many blocks share its multiprocessor."""
        power = np.log(_SHARED[1] / _ALONE[1]) / np.log(_SHARED[0] / _ALONE[0])
        fixed = _ALONE[1] * max(1.0, resident * threads / 32 / _ALONE[0]) ** power
        fixed *= _FIXED[threads] / _FIRST * CARDS["H200"].clock / card.clock
        issue = resident / (card.clock * _ISSUED)
        values = (taken * n + gathered) / 32 * _VALUES
        return iterations * (fixed + issue * np.ceil(size / 32) * _MEMBERS) + issue * values

    takes = [seconds(resident) for resident in range(1, blocks + 1)]
    n_sm = card.limits.n_multiprocessors
    # Of a value that is gathered a sector is read, and it is written, once or twice.
    read = iterations * size * 8 + taken * n * 4 + gathered * 32
    read += 2 * gathered * 4 if one_triangle else 0
    products = 2 * ROWS**2 * (784 + len(gammas) * 10 * N_C)
    return {
        "threads": threads,
        "blocks": launching.n_blocks(card.limits, len(g)),
        "members": members,
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
    left = np.ones(len(takes[0]))
    while waiting < left.size or running.size:
        more = min(left.size, waiting + n_multiprocessors * blocks - running.size)
        running, waiting = np.append(running, np.arange(waiting, more)), more
        pace = takes[min(blocks, -(-running.size // n_multiprocessors)) - 1][running]
        step = (left[running] * pace).min()
        left[running] -= step / pace
        now, running = now + step, running[left[running] > 1e-12]
    return float(now)


if __name__ == "__main__":
    found = [(d, name, predict(d, name)) for d in LARGEST for name in CARDS]
    lines = [
        [d, name, *(f"{v:,}" if isinstance(v, int) else f"{v:.1f}" for v in one.values())]
        for d, name, one in found
    ]
    print(markdown_table(["decision", "card", *found[0][2]], lines))
