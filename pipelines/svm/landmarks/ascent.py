"""Dual coordinate ascent on features, for several C of a binary problem at once.

A row of features has thousands of bytes, and a step on it takes few operations. A sweep over the
rows therefore makes the steps of several C: a row is read once for all of them.

References
----------
C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual coordinate descent
method for large-scale linear SVM", ICML 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from pipelines.svm.landmarks.primal_newton import ROWS_EACH

# Newton's method continues after as many steps for each C as this many sweeps over all rows have,
# plus the time of as many steps of Newton's method. Those steps multiply matrices of features,
# where a product takes this fraction of its time here.
SWEEPS, OF_PRODUCT = 8, 0.005
# The violation of optimality, relative to a margin of 1, at which the objective is first computed,
# and the factor by which it shrinks until the objective is good enough.
FIRST_VIOLATION, FACTOR = 0.1, 0.25


@njit(nogil=True, fastmath=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _sweep(
    features: Any,
    norms: Any,
    rows: Any,
    signs: Any,
    targets: Any,
    bounds: Any,
    Cs: Any,
    w: Any,
    alpha: Any,
    shrunk: Any,
    violation: float,
    allowed: float,
    most: int,
    seed: int,
) -> tuple[int, int]:
    """Sweep over the rows, for every C, until violations are below ``violation``.

    It also ends after ``allowed`` steps or ``most`` sweeps. A row on which no C has work left is
    skipped from then on.

    Returns
    -------
    n_steps, n_sweeps : int
    """
    n_C, n_left, n_steps, n_sweeps = Cs.size, rows.size, 0, 0
    order, state = np.arange(n_left), np.uint64(2 * seed + 1)
    # The least and largest violations of the last sweep; a row at its bound beyond them is shrunk.
    low, high = np.full(n_C, -np.inf, np.float32), np.full(n_C, np.inf, np.float32)
    least, largest = np.empty(n_C, np.float32), np.empty(n_C, np.float32)
    while n_left and n_steps < allowed and n_sweeps != most:
        least[:], largest[:] = np.inf, -np.inf
        n_before, n_left = n_left, 0
        for at in range(n_before):
            # A random one of the remaining rows (Fisher-Yates), by a linear congruential generator.
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            swapped = at + int((state >> np.uint64(33)) % np.uint64(n_before - at))
            position = order[swapped]
            order[swapped] = order[at]
            x, sign, target = features[rows[position]], signs[position], targets[position]
            norm, is_left = norms[rows[position]], False
            for c in range(n_C):
                if shrunk[position, c]:
                    continue
                value = np.float32(0)
                for j in range(x.size):
                    value += w[c, j] * x[j]
                n_steps += 1
                gradient = sign * (value - target)
                bound, a = Cs[c] * bounds[position], alpha[position, c]
                off = gradient
                if a <= 0:
                    if gradient > high[c]:
                        shrunk[position, c] = True
                        continue
                    off = min(gradient, np.float32(0))
                elif a >= bound:
                    if gradient < low[c]:
                        shrunk[position, c] = True
                        continue
                    off = max(gradient, np.float32(0))
                is_left = True
                least[c], largest[c] = min(least[c], off), max(largest[c], off)
                b = min(max(a - gradient / norm, np.float32(0)), bound)
                if b != a:
                    alpha[position, c] = b
                    change = sign * (b - a)
                    for j in range(x.size):
                        w[c, j] += change * x[j]
            if is_left:
                order[n_left] = position
                n_left += 1
        n_sweeps += 1
        is_far = False
        for c in range(n_C):
            is_far = is_far or largest[c] - least[c] > violation
            low[c] = least[c] if least[c] < 0 else -np.inf
            high[c] = largest[c] if largest[c] > 0 else np.inf
        if not is_far:
            break
    return n_steps, n_sweeps


def squared_norms(features: np.ndarray) -> np.ndarray:
    """Squared norms of rows, float32, computed in pieces, as features may lie on disk."""
    starts = range(0, len(features), 4096)
    pieces = [features[start : start + 4096] for start in starts]
    return np.concatenate([np.einsum("ij,ij->i", piece, piece) for piece in pieces])


@njit(nogil=True, fastmath=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _losses(features: Any, rows: Any, signs: Any, targets: Any, bounds: Any, w: Any) -> Any:
    """The sum of the losses of all rows for each C, not multiplied by C: float64 (n_C,)."""
    sums = np.zeros(len(w))
    for position in range(rows.size):
        x = features[rows[position]]
        for c in range(len(w)):
            value = np.float32(0)
            for j in range(x.size):
                value += w[c, j] * x[j]
            sums[c] += bounds[position] * max(
                signs[position] * (targets[position] - value), np.float32(0)
            )
    return sums


def ascend(
    features: np.ndarray,
    norms: np.ndarray,
    rows: np.ndarray,
    signs: np.ndarray,
    targets: np.ndarray,
    bounds: np.ndarray,
    Cs: np.ndarray,
    tol: float,
    seed: int,
    most: int = -1,
) -> tuple[np.ndarray, np.ndarray]:
    """Solve a problem for several C to ``tol``, or approximately if that takes too many steps.

    Parameters
    ----------
    features : float32 array of shape (n, n_features)
    norms : float32 array of shape (n,)
        Squared norms of the features of each row.
    rows : int64 array of shape (n_rows,)
        The rows of the problem.
    signs, targets : float32 arrays of shape (n_rows,), see ``Loss``
    bounds : float32 array of shape (n_rows,)
        The factor of C for each row.
    Cs : float32 array of shape (n_C,)
    tol : float
        Duality gap as a fraction of the objective.
    seed : int
        Seed for the order of the rows.
    most : int
        The most sweeps; -1 for as many as are faster than Newton's method.

    Returns
    -------
    multipliers : float32 array of shape (n_rows, n_C)
    n_sweeps : int64 array of shape (n_C,)
        Steps on rows, in sweeps over all rows.
    """
    n, n_C = len(rows), len(Cs)
    w, alpha = np.zeros((n_C, features.shape[1]), np.float32), np.zeros((n, n_C), np.float32)
    shrunk, reached = np.zeros((n, n_C), np.bool_), np.zeros(n_C, np.bool_)
    violation, n_steps, n_sweeps = FIRST_VIOLATION, 0, 0
    n_features = features.shape[1]
    of_matrix = OF_PRODUCT * (min(n, ROWS_EACH * n_features) + n_features) * n_features
    allowed = n_C * SWEEPS * (n + of_matrix)
    problem = features, norms, rows, signs, targets, bounds, Cs, w, alpha, shrunk
    while n_steps < allowed and n_sweeps != most:
        limits = violation, allowed - n_steps, most - n_sweeps, seed + n_sweeps
        counts = _sweep(*problem, *limits)
        n_steps, n_sweeps = n_steps + counts[0], n_sweeps + counts[1]
        if n_steps >= allowed:
            break
        half = np.einsum("cj,cj->c", w, w, dtype=np.float64) / 2
        primal = half + Cs * _losses(features, rows, signs, targets, bounds, w)
        dual = np.einsum("ic,i->c", alpha, signs * targets, dtype=np.float64) - half
        reached |= primal - dual <= tol * primal
        if reached.all():
            break
        # Go on with all rows for the C's that are not good enough, to a smaller violation.
        violation *= FACTOR
        shrunk[:] = reached
    return alpha, np.full(n_C, -(-n_steps // max(1, n * n_C)), np.int64)
