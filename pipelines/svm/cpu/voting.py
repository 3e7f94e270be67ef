"""Predict classes from products of kernel and multipliers."""

import numpy as np

from pipelines.svm.compiled import compiled


@compiled()
def vote(parts: np.ndarray, intercepts: np.ndarray, predicted: np.ndarray) -> None:
    """Predict by one-vs-one votes as LIBSVM counts them.

    A decision value above 0 is a vote for the pair's first class, otherwise for
    its second; the lowest class wins a tie.

    Parameters
    ----------
    parts : float32 array of shape (n_classes, n_rows, n_classes, n_C)
        ``parts[a, v, b]``: what class a's support vectors add to the decision
        value of the pair of a and b at row v.
    intercepts : float64 array of shape (n_pairs, n_C)
    predicted : int64 array of shape (n_rows, n_C), output
    """
    n_classes, n_C = parts.shape[0], parts.shape[3]
    votes = np.empty((n_classes, n_C), np.int32)
    for v in range(predicted.shape[0]):
        votes[:] = 0
        pair = 0
        for a in range(n_classes):
            for b in range(a + 1, n_classes):
                for c in range(n_C):
                    value = np.float64(parts[a, v, b, c]) + parts[b, v, a, c]
                    wins = np.int32(value + intercepts[pair, c] > 0)
                    votes[a, c] += wins
                    votes[b, c] += np.int32(1) - wins
                pair += 1
        for c in range(n_C):
            best = 0
            for a in range(1, n_classes):
                if votes[a, c] > votes[best, c]:
                    best = a
            predicted[v, c] = best


@compiled()
def pair_decisions(parts: np.ndarray, intercepts: np.ndarray, values: np.ndarray) -> None:
    """Compute decision values of every pair; ``values`` : float32 (n_rows, n_pairs, n_C)."""
    n_classes = parts.shape[0]
    for v in range(parts.shape[1]):
        pair = 0
        for a in range(n_classes):
            for b in range(a + 1, n_classes):
                for c in range(parts.shape[3]):
                    value = np.float64(parts[a, v, b, c]) + parts[b, v, a, c]
                    values[v, pair, c] = value + intercepts[pair, c]
                pair += 1


@compiled()
def _may_change(parts: np.ndarray, intercepts: np.ndarray, within: float, v: int, c: int) -> bool:
    """Return whether flipping decision values within ``within`` of 0 makes another class win."""
    n_classes = parts.shape[0]
    sure, open_ = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64)
    pair = 0
    for a in range(n_classes):
        for b in range(a + 1, n_classes):
            value = np.float64(parts[a, v, b, c]) + parts[b, v, a, c] + intercepts[pair, c]
            if abs(value) < within:
                open_[a] += 1
                open_[b] += 1
            else:
                sure[a if value > 0 else b] += 1
            pair += 1
    best = np.argmax(sure)  # the lowest of equals, as the vote
    for a in range(n_classes):
        most = sure[a] + open_[a]
        if a != best and (most > sure[best] or (most == sure[best] and a < best)):
            return True
    return False


@compiled()
def undecided(parts: np.ndarray, intercepts: np.ndarray, uncertain: float) -> np.ndarray:
    """Return rows whose class may change if every part is off by a share of the largest.

    parts, intercepts : as for ``vote``
    uncertain : that share; with 0 no row is
    """
    n_classes, n_rows, n_C = parts.shape[0], parts.shape[1], parts.shape[3]
    found = np.zeros(n_rows, np.bool_)
    if uncertain == 0.0:
        return np.flatnonzero(found)
    within = np.zeros(n_C, np.float64)
    for a in range(n_classes):
        for v in range(n_rows):
            for b in range(n_classes):
                for c in range(n_C):
                    within[c] = max(within[c], uncertain * abs(parts[a, v, b, c]))
    n_near = np.empty(n_C, np.int64)
    for v in range(n_rows):
        pair = 0
        n_near[:] = 0
        for a in range(n_classes):
            for b in range(a + 1, n_classes):
                for c in range(n_C):
                    value = np.float64(parts[a, v, b, c]) + parts[b, v, a, c]
                    n_near[c] += np.int64(abs(value + intercepts[pair, c]) < within[c])
                pair += 1
        for c in range(n_C):
            if not found[v] and n_near[c] > 0:
                found[v] = _may_change(parts, intercepts, within[c], v, c)
    return np.flatnonzero(found)
