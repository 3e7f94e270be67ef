"""Points that are not of the kind the ensemble was trained on, named by conformal p-values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

MOST_KNOWN = 5_000  # training rows that new samples are compared with
GREYS = 64  # quantiles of an image's pixels
FALSE_DISCOVERY_RATE = 0.05
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class ConformalNoveltyDetector:
    """Training rows, and how far each of them lies from the nearest other.

    A sample is strange where its nearest training row is further away than those rows are from
    each other: of images by the product of the distance and of the distance of directions
    (what is drawn, at any brightness), and by their sorted pixels alone (how they are drawn);
    of tables by distance.

    The p-value of a measure is the share of training rows at least as far from
    their nearest other, the sample counted among them. If the sample is exchangeable with
    the rows, it is at most p with probability at most p, exactly: the sample could only bring
    rows nearer to their nearest other, so leaving it out there makes p larger.
    Two measures share the error (Bonferroni). Laxhammar and Falkman, Conformal prediction for
    distribution-independent anomaly detection (2010).

    Attributes
    ----------
    rows : array of shape (n_known, n_features)
        Pixels as they are, or prepared columns of a table.
    apart : float array of shape (n_measures, n_known), ascending
        Of each row, by each measure.
    """

    rows: np.ndarray
    is_image: bool
    apart: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, is_image: bool) -> Self:
        """Measure training rows."""
        return cls(rows, is_image, np.sort(_measure(rows, None, is_image), axis=1))

    def p_values(self, samples: np.ndarray) -> np.ndarray:
        """Return the conformal p-values of samples, float array of shape (n_samples,).

        Parameters
        ----------
        samples : array of shape (n_samples, n_features), in the form of ``rows``
        """
        if not len(samples):
            return np.empty(0)
        found = _measure(self.rows, samples, self.is_image)
        n = self.apart.shape[1]
        p = np.array([
            (1 + n - np.searchsorted(own, distance, side="left")) / (n + 1)
            for own, distance in zip(self.apart, found, strict=True)
        ])  # fmt: skip
        smallest: np.ndarray = np.minimum(1.0, len(p) * p.min(axis=0))
        return smallest


def choose_reference_rows(n_rows: int, seed: int) -> np.ndarray:
    """Draw the training rows to compare with: all, or ``MOST_KNOWN`` at random."""
    if n_rows <= MOST_KNOWN:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, MOST_KNOWN, replace=False))


def select_novel(p: np.ndarray, rate: float = FALSE_DISCOVERY_RATE) -> np.ndarray:
    """Select the novel samples of a batch, with a false discovery rate of at most ``rate``.

    The rule of Benjamini and Hochberg, Journal of the Royal Statistical Society B 57 (1995);
    for p-values from one set of rows see Bates et al., Testing for outliers with conformal
    p-values, Annals of Statistics 51 (2023). A sample alone is named where its p is at
    most ``rate``.

    Parameters
    ----------
    p : float array of shape (n_samples,)
    rate : float between 0 and 1, a mean over batches
    """
    order = np.argsort(p, kind="stable")
    small = np.flatnonzero(p[order] <= rate * np.arange(1, len(p) + 1) / max(1, len(p)))
    named = np.zeros(len(p), dtype=bool)
    if len(small):
        named[order[: small[-1] + 1]] = True
    return named


def _measure(rows: np.ndarray, samples: np.ndarray | None, is_image: bool) -> np.ndarray:
    """Return the distance to the nearest other row by each measure."""
    plain = _nearest(_as_they_are, rows, samples)
    if not is_image:
        return plain[None]
    return np.stack([plain * _nearest(_direction, rows, samples), _nearest(_greys, rows, samples)])


def _nearest(
    form: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, samples: np.ndarray | None
) -> np.ndarray:
    from sklearn.neighbors import NearestNeighbors

    if len(rows) < 2:  # there is no other
        return np.full(len(rows) if samples is None else len(samples), np.inf)
    known = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(form(rows))
    found: np.ndarray = known.kneighbors(None if samples is None else form(samples))[0][:, 0]
    return found


def _as_they_are(rows: np.ndarray) -> np.ndarray:
    return rows.astype(np.float32)


def _direction(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows.astype(np.float32), axis=1, keepdims=True)
    return rows / np.maximum(length, TINY)


def _greys(rows: np.ndarray) -> np.ndarray:
    places = np.linspace(0, rows.shape[1] - 1, min(GREYS, rows.shape[1])).round().astype(int)
    return np.sort(rows, axis=1)[:, places].astype(np.float32)
