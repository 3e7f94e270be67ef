"""Dual coordinate ascent on features: several C of a binary problem at once.

Hsieh, Chang, Lin, Keerthi and Sundararajan, A dual coordinate descent method for large-scale
linear SVM (ICML 2008). A row of features is thousands of bytes and a step on it few operations,
so that a sweep over the rows serves several C: a row is read once for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from pipelines.svm.landmarks.newton import ROWS_EACH

# Steps on rows for each C, after which Newton's method goes on: so many sweeps over all rows, and
# what as many of its own steps would take, each of which makes a matrix of the features from so
# many rows for each; a product there takes a fraction of one here.
SWEEPS, OF_PRODUCT = 20, 0.05
# Violations of the optimum, of a margin of 1, at which the objective is looked at, and the factor
# by which they get smaller where it is not there yet.
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
    order: Any,
    w: Any,
    alpha: Any,
    shrunk: Any,
    limits: Any,
    found: Any,
) -> tuple[int, int]:
    """Step on each row of ``order`` for each C; rows without work left are taken out of it.

    limits, found : float32 (2, n_C), least and largest violation of the last sweep, beyond which
        a row at its bound is shrunk, and of this one
    """
    n_left, n_steps = 0, 0
    found[0], found[1] = np.inf, -np.inf
    for place in order:
        x, sign, norm = features[rows[place]], signs[place], norms[rows[place]]
        target = targets[place]
        is_left = False
        for c in range(Cs.size):
            if shrunk[place, c]:
                continue
            value = np.float32(0)
            for j in range(x.size):
                value += w[c, j] * x[j]
            n_steps += 1
            gradient = sign * (value - target)
            bound, a = Cs[c] * bounds[place], alpha[place, c]
            violation = gradient
            if a <= 0:
                if gradient > limits[1, c]:
                    shrunk[place, c] = True
                    continue
                violation = min(gradient, np.float32(0))
            elif a >= bound:
                if gradient < limits[0, c]:
                    shrunk[place, c] = True
                    continue
                violation = max(gradient, np.float32(0))
            is_left = True
            found[0, c] = min(found[0, c], violation)
            found[1, c] = max(found[1, c], violation)
            b = min(max(a - gradient / norm, np.float32(0)), bound)
            if b != a:
                alpha[place, c] = b
                change = sign * (b - a)
                for j in range(x.size):
                    w[c, j] += change * x[j]
        if is_left:
            order[n_left] = place
            n_left += 1
    return n_left, n_steps


def squared_norms(features: np.ndarray) -> np.ndarray:
    """Squared norms of rows, float32; made in pieces, as features may lie on a disk."""
    starts = range(0, len(features), 4096)
    pieces = [features[start : start + 4096] for start in starts]
    return np.concatenate([np.einsum("ij,ij->i", piece, piece) for piece in pieces])


@njit(nogil=True, fastmath=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _losses(features: Any, rows: Any, signs: Any, targets: Any, bounds: Any, w: Any) -> Any:
    """Sums of what rows cost, but for C: float64 (n_C,)."""
    sums = np.zeros(len(w))
    for place in range(rows.size):
        x = features[rows[place]]
        for c in range(len(w)):
            value = np.float32(0)
            for j in range(x.size):
                value += w[c, j] * x[j]
            sums[c] += bounds[place] * max(signs[place] * (targets[place] - value), np.float32(0))
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
    """Solve a problem for several C, or come near: until ``tol`` or the steps are reached.

    Parameters
    ----------
    features : float32 array of shape (n, n_features)
    norms : float32 array of shape (n,), squared
    rows : int64 array of shape (n_rows,), those of the problem
    signs, targets : float32 arrays of shape (n_rows,); see ``Loss``
    bounds : float32 array of shape (n_rows,), what C is multiplied with for each
    Cs : float32 array of shape (n_C,)
    tol : share of the objective
    most : sweeps; -1 for what is worth it

    Returns
    -------
    multipliers : float32 array of shape (n_rows, n_C)
    n_sweeps : int64 array of shape (n_C,), steps on rows, as sweeps over all of them
    """
    n, n_C = len(rows), len(Cs)
    w, alpha = np.zeros((n_C, features.shape[1]), np.float32), np.zeros((n, n_C), np.float32)
    shrunk, reached = np.zeros((n, n_C), np.bool_), np.zeros(n_C, np.bool_)
    wide = np.repeat(np.array([[-np.inf], [np.inf]], np.float32), n_C, axis=1)
    limits, found = wide.copy(), np.empty((2, n_C), np.float32)
    rng, all_rows, violation = np.random.default_rng(seed), np.arange(n), FIRST_VIOLATION
    order, n_steps, n_sweeps = all_rows.copy(), 0, 0
    n_features = features.shape[1]
    of_matrix = OF_PRODUCT * min(n, ROWS_EACH * n_features) * n_features
    allowed = n_C * SWEEPS * (n + of_matrix)
    problem = features, norms, rows, signs, targets, bounds, Cs
    while n_steps < allowed and n_sweeps != most:
        rng.shuffle(order)
        n_left, n_more = _sweep(*problem, order, w, alpha, shrunk, limits, found)
        n_steps, n_sweeps = n_steps + n_more, n_sweeps + 1
        if n_left and (found[1] - found[0] > violation).any():
            order = order[:n_left]
            limits[0] = np.where(found[0] >= 0, -np.inf, found[0])
            limits[1] = np.where(found[1] <= 0, np.inf, found[1])
            continue
        half = np.einsum("cj,cj->c", w, w, dtype=np.float64) / 2
        primal = half + Cs * _losses(features, rows, signs, targets, bounds, w)
        dual = np.einsum("ic,i->c", alpha, signs * targets, dtype=np.float64) - half
        reached |= primal - dual <= tol * primal
        if reached.all():
            break
        # All rows are looked at again, of those C that are not there, and more closely.
        violation *= FACTOR
        order, limits = all_rows.copy(), wide.copy()
        shrunk[:] = reached
    return alpha, np.full(n_C, -(-n_steps // (n * n_C)), np.int64)
