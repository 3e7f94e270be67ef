"""How one C's solution becomes the start for the next.

Alpha seeding: D. DeCoste, K. Wagstaff, "Alpha seeding for support vector machines",
KDD 2000.
"""

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary import State

# The trial on the line through the last two solutions is made while it needs fewer
# kernel rows than this share of the support vectors.
_TRIAL_SHARE = 0.2


@compiled()
def _scale(ratio: float, y: np.ndarray, state: State) -> None:
    """Multiply every multiplier, and its bound, by the growth of C."""
    beta, residual, lower, upper = state.beta, state.residual, state.lower, state.upper
    old_lower, old_upper = state.old_lower, state.old_upper
    for k in range(y.size):
        residual[k] = y[k] - (y[k] - residual[k]) * ratio
        if beta[k] == 0.0:
            continue
        if beta[k] == old_upper[k]:
            beta[k] = upper[k]
        elif beta[k] == old_lower[k]:
            beta[k] = lower[k]
        else:
            beta[k] = min(max(beta[k] * ratio, lower[k]), upper[k])


@compiled()
def _extrapolate(growth: float, state: State) -> int:
    """Go on along the line through the last two solutions, within the new bounds.

    While no multiplier reaches or leaves a bound the solution is linear in C
    (T. Hastie, S. Rosset, R. Tibshirani, J. Zhu, "The entire regularization path
    for the support vector machine", JMLR 5, 2004), and so is the residual.  Those
    the bounds stop are put there, and others take up their sum.  Returns how many
    ``rows`` and ``factors`` of the kernel the trial's residual still lacks, or -1.
    """
    beta, residual, lower, upper = state.beta, state.residual, state.lower, state.upper
    old_beta, old_residual = state.old_beta, state.old_residual
    trial, trial_residual = state.trial, state.trial_residual
    rows, factors = state.rows, state.factors
    m, excess = 0, 0.0
    for k in range(beta.size):
        trial_residual[k] = residual[k] + growth * (residual[k] - old_residual[k])
        aim = beta[k] + growth * (beta[k] - old_beta[k])
        # Only a rounding error may be taken off without a change of the residual.
        slack = 1e-14 * (upper[k] - lower[k])
        trial[k] = aim
        if aim >= upper[k] - slack:
            trial[k] = upper[k]
        elif aim <= lower[k] + slack:
            trial[k] = lower[k]
        excess += trial[k]
        if abs(trial[k] - aim) > slack:
            rows[m], factors[m] = k, trial[k] - aim
            m += 1
    for k in range(beta.size):
        if excess == 0.0 or m == rows.size:
            break
        if lower[k] < trial[k] < upper[k]:
            new = min(max(trial[k] - excess, lower[k]), upper[k])
            rows[m], factors[m] = k, new - trial[k]
            m += 1
            excess += new - trial[k]
            trial[k] = new
    return m if abs(excess) <= 1e-12 * upper.max() else -1


@compiled()
def seed(
    c: int,
    Cs: np.ndarray,
    y: np.ndarray,
    state: State,
    n_support: int,
    n_bounded: int,
    scale_share: float,
) -> tuple[int, bool]:
    """Make the last solution a start for C number c, and a trial beside it.

    scale_share : ``rules.SCALE_SHARE``, or what a solver other than SMO wants

    Returns how many kernel rows the trial's residual lacks, -1 where it would take
    too many to be worth it, and whether the start differs from the last solution.
    """
    m = -1
    if c >= 2 and Cs[c - 1] > Cs[c - 2]:
        m = _extrapolate((Cs[c] - Cs[c - 1]) / (Cs[c - 1] - Cs[c - 2]), state)
        if m >= _TRIAL_SHARE * n_support:
            m = -1
    state.old_beta[:] = state.beta
    state.old_residual[:] = state.residual
    scaled = n_bounded > scale_share * n_support
    if scaled:
        _scale(Cs[c] / Cs[c - 1], y, state)
    return m, scaled
