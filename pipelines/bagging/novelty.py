"""Samples that are not of the kind the ensemble was trained on, named by conformal p-values."""

from __future__ import annotations

import numpy as np

FALSE_DISCOVERY_RATE = 0.05


def novelty_p_values(known: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Return the share of training rows at least as far as each sample, itself counted in.

    If a sample is of the training rows' kind it is at most p with probability at most p,
    but for one thing: a row's distance is the mean over the third of the members that left it
    out, which varies more than that of all members; so p errs on the large side. Laxhammar
    and Falkman, Conformal prediction for distribution-independent anomaly detection (2010).

    Parameters
    ----------
    known : float array of shape (n_known,), out-of-bag distances of training rows
    distance : float array of shape (n_samples,); one that is not a number has a p of 1

    Returns
    -------
    float64 array of shape (n_samples,)
    """
    n = len(known)
    p = (1 + n - np.searchsorted(np.sort(known), distance, side="left")) / (n + 1)
    return np.where(np.isnan(distance), 1.0, p)


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
