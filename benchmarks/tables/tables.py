"""Generated tables that resemble public ones which are hard at large C.

None is the public table: each has its number of rows, columns and classes, its share
of the rarer class, the shape of its columns, and about the error that a good
classifier leaves on it.  Equal names give equal tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_Maker = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Table:
    """A kind of table.

    Attributes
    ----------
    rows : int, of the public table
    resembles : what the public one is, and what is alike
    make : function of a generator and a number of rows
        Gives X, float64 (n, n_features), and y, int64 (n,).
    """

    rows: int
    resembles: str
    make: _Maker


def make_table(name: str, rows: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A table of ``TABLES``, its columns standardised.

    Parameters
    ----------
    name : str
    rows : int, optional
        Fewer or more than the public table has.
    seed : int

    Returns
    -------
    X : float64 array of shape (rows, n_features), mean 0 and variance 1
    y : int64 array of shape (rows,)
    """
    table = TABLES[name]
    X, y = table.make(np.random.default_rng([seed, *name.encode()]), rows or table.rows)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def _mixture(
    rng: np.random.Generator, n: int, n_features: int, n_parts: int, spread: float, width: float
) -> np.ndarray:
    """Rows from Gaussian parts of their own centres, directions and sizes."""
    centres = rng.normal(scale=spread, size=(n_parts, n_features))
    shapes = rng.normal(scale=width, size=(n_parts, n_features, n_features)) / n_features**0.5
    part = rng.choice(n_parts, size=n, p=rng.dirichlet(np.full(n_parts, 4.0)))
    noise = rng.normal(size=(n, n_features))
    return centres[part] + np.einsum("nij,nj->ni", shapes[part], noise) + 0.2 * width * noise


def _labels(rng: np.random.Generator, n: int, share: float) -> np.ndarray:
    """1 for a share of the rows, at least 10 of them, 0 for the others."""
    y = np.zeros(n, np.int64)
    y[: max(10, round(share * n))] = 1
    return rng.permutation(y)


def _phoneme(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = _labels(rng, n, 0.29)
    X = np.where(y[:, None] == 1, _mixture(rng, n, 5, 5, 1.0, 0.9), _mixture(rng, n, 5, 7, 1.3, 1))
    flipped = rng.random(n) < 0.05
    return X, np.where(flipped, 1 - y, y)


def _mammography(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = _labels(rng, n, 0.023)
    common = np.exp(0.8 * _mixture(rng, n, 6, 6, 0.7, 0.8))
    rare = np.exp(0.7 * _mixture(rng, n, 6, 3, 0.5, 1.0) + 0.6)
    X = np.where(y[:, None] == 1, rare, common)
    X[:, 4] *= rng.random(n) > 0.6 * (y == 0)  # a column that is mostly 0
    return np.log1p(X), y


def _banknote(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = _labels(rng, n, 0.445)
    t = rng.uniform(-1.5, 1.5, size=n)
    X = np.stack([t + 1.1 * (y - 0.5), np.sin(2 * t) + 0.9 * (y - 0.5), t * t, -t], axis=1)
    return X + 0.2 * rng.normal(size=(n, 4)), y


def _abalone(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = rng.choice(3, size=n, p=(0.313, 0.321, 0.366))  # female, infant, male
    size = rng.normal(np.array([0.45, -0.75, 0.3])[y], 0.65)
    length = size[:, None] + 0.12 * rng.normal(size=(n, 3)) + 0.04 * (y == 0)[:, None]
    weight = np.exp(0.9 * size[:, None] + 0.18 * rng.normal(size=(n, 4)))
    rings = np.exp(0.25 * size + 0.22 * rng.normal(size=n))
    return np.column_stack([length, weight, rings]), y


def _magic(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = _labels(rng, n, 0.352)  # hadron
    X = np.where(
        y[:, None] == 1, _mixture(rng, n, 10, 6, 0.5, 1.2), _mixture(rng, n, 10, 4, 0.4, 0.85)
    )
    X[:, :5] = np.exp(0.5 * X[:, :5])
    flipped = rng.random(n) < 0.05
    return X, np.where(flipped, 1 - y, y)


def _spambase(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = _labels(rng, n, 0.394)
    how_often = rng.beta(0.6, 2.0, size=(2, 54))  # a word is in so many messages
    how_much = rng.normal(-0.8, 0.8, size=(2, 54))
    same = rng.random(54) < 0.3
    how_often[1, same], how_much[1, same] = how_often[0, same], how_much[0, same]
    occurrence = rng.random((n, 54)) < how_often[y] * rng.uniform(0.3, 1.7, size=(n, 1))
    words = occurrence * np.exp(how_much[y] + 0.9 * rng.normal(size=(n, 54)))
    runs = np.exp(rng.normal(1 + 0.5 * y[:, None], 1, size=(n, 3)))
    flipped = rng.random(n) < 0.03
    return np.log1p(np.column_stack([words, runs])), np.where(flipped, 1 - y, y)


TABLES = {
    "phoneme": Table(
        5404,
        "nasal and oral vowels: 5 harmonics, 29 % oral, classes of several parts that "
        "overlap, one label in twenty wrong",
        _phoneme,
    ),
    "mammography": Table(
        11183,
        "calcifications: 6 skewed columns, 2.3 % positive within the others' cloud",
        _mammography,
    ),
    "banknote": Table(
        1372,
        "genuine and forged notes: 4 columns, 44 % forged, curved classes that nearly part",
        _banknote,
    ),
    "abalone": Table(
        4177,
        "the sex of abalones: 8 sizes and weights that nearly repeat each other, 3 classes, "
        "two of them hardly different",
        _abalone,
    ),
    "magic": Table(
        19020,
        "gamma rays and hadrons: 10 columns, half of them skewed, 35 % hadrons, classes "
        "that overlap",
        _magic,
    ),
    "spambase": Table(
        4601,
        "e-mail: 57 frequencies of words, most of them 0, 39 % spam, some labels wrong",
        _spambase,
    ),
}
