"""Predict classes from products of kernel and multipliers, by one-vs-one votes as LIBSVM does."""

from itertools import combinations

import numpy as np


def pair_decisions(parts: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Return the decision values of every pair, float64 (n_pairs, n_rows, n_C).

    Parameters
    ----------
    parts : float array of shape (n_classes, n_rows, n_classes, n_C)
        ``parts[a, v, b]``: what class a's support vectors add to the decision
        value of the pair of a and b at row v.
    intercepts : float64 array of shape (n_pairs, n_C)
    """
    values = np.empty((len(intercepts), *parts.shape[1::2]))
    for pair, (a, b) in enumerate(combinations(range(len(parts)), 2)):
        np.add(parts[a, :, b], parts[b, :, a], out=values[pair])
        values[pair] += intercepts[pair]
    return values


def vote(values: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the predicted class numbers, int64 (n_rows, n_C).

    A decision value above 0 is a vote for the pair's first class, otherwise for
    its second; the lowest class wins a tie.

    values : from ``pair_decisions``
    """
    # A class's votes, and where those are equal the lower class's number, in one.
    votes = np.zeros((n_classes, *values.shape[1:]), np.int32)
    votes -= np.arange(n_classes, dtype=np.int32)[:, None, None]
    for pair, (a, b) in enumerate(combinations(range(n_classes), 2)):
        wins = values[pair] > 0
        votes[a] += n_classes * wins
        votes[b] += n_classes * ~wins
    return -votes.max(axis=0).astype(np.int64) % n_classes


def undecided(values: np.ndarray, within: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the rows whose class may change if values within ``within`` of 0 change sign.

    values : from ``pair_decisions``; within : float64 (n_C,)
    """
    near = (np.abs(values) < within).any(axis=0)
    rows, places = np.nonzero(near)
    close = values[:, rows, places]  # (n_pairs, n_near)
    open_ = np.abs(close) < within[places]
    sure, most = np.zeros((2, n_classes, len(rows)), np.int64)
    for pair, (a, b) in enumerate(combinations(range(n_classes), 2)):
        for winner, wins in ((a, close[pair] > 0), (b, close[pair] <= 0)):
            sure[winner] += wins & ~open_[pair]
            most[winner] += wins | open_[pair]
    best = sure.argmax(axis=0)  # the lowest of equals, as the vote
    lead = sure[best, np.arange(len(rows))]
    number = np.arange(n_classes)[:, None]
    other = (number != best) & ((most > lead) | ((most == lead) & (number < best)))
    return np.unique(rows[other.any(axis=0)])
