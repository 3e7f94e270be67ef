"""Bootstrap samples drawn within folds, so that no row leaks from one fold to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.data.folds import Rows
from pipelines.data.placement import Fold, FoldedData
from pipelines.errors import InputError, opt


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Folds of a training set and, within each, rows drawn with replacement.

    Attributes
    ----------
    folds : tuple of int32 arrays, ascending
        Every row of the training set is in exactly one fold.
    samples : tuple of int32 arrays
        For each fold, as many rows as it has, drawn from it with replacement.
    """

    folds: tuple[Rows, ...]
    samples: tuple[Rows, ...]

    def train(self, fold: int) -> Rows:
        """The training rows of ``fold``: those drawn from all other folds."""
        other_samples = [
            sample for other_fold, sample in enumerate(self.samples) if other_fold != fold
        ]
        return np.concatenate(other_samples)

    def validation(self, fold: int) -> Rows:
        """The validation rows of ``fold``: each of its rows once, without resampling.

        None of them is in ``train(fold)``; drawn rows would only add noise to the error.
        """
        return self.folds[fold]

    def everything(self) -> Rows:
        """The drawn rows of all folds, on which the best candidate is refitted."""
        return np.concatenate(self.samples)

    def out_of_bag(self, fold: int | None = None) -> Rows:
        """Rows that were not drawn for ``train(fold)``, or for ``everything``; ascending.

        They are about a third of the rows of the folds drawn from. None of them is in ``fold``.
        """
        other_folds = [rows for other_fold, rows in enumerate(self.folds) if other_fold != fold]
        drawn = self.everything() if fold is None else self.train(fold)
        return np.setdiff1d(np.concatenate(other_folds), drawn)


@dataclass(frozen=True, eq=False)
class BootstrapSplits(Sequence[Fold]):
    """The splits of a bootstrap: for each fold, drawn training rows and validation rows.

    They are drawn when a process first needs them and kept with the rows, so that only the seed
    travels between processes.

    Attributes
    ----------
    data : FoldedData
        Its classes stratify the folds, and its weights are used for the draws.
    n_folds : int
    seed : int
        Seed of the run.
    key : tuple of int
        Distinguishes this bootstrap from others with the same seed.
    rows : int array, optional
        Rows of ``data`` to draw from; by default all.
    whole : bool
        Whether there is a single split: all drawn rows, and all rows that were not drawn.
    """

    data: FoldedData
    n_folds: int
    seed: int
    key: tuple[int, ...]
    rows: Rows | None = None
    whole: bool = False

    @property
    def sample(self) -> Bootstrap:
        """The bootstrap, drawn at the first access."""

        def draw() -> Bootstrap:
            y, weights, rows = self.data.y, self.data.weights, self.rows
            selection = slice(None) if rows is None else rows
            weights = None if weights is None else weights[selection]
            generator = bootstrap_generator(self.seed, *self.key)
            bootstrap = draw_bootstrap(y[selection], self.n_folds, generator, weights)
            if rows is None:
                return bootstrap
            return Bootstrap(
                *(tuple(rows[i] for i in parts) for parts in (bootstrap.folds, bootstrap.samples))
            )

        key = "bootstrap", self.n_folds, self.seed, self.key
        bootstrap: Bootstrap = self.data.placement.get(key, draw)
        return bootstrap

    def __len__(self) -> int:
        return 1 if self.whole else self.n_folds

    def __getitem__(self, split: Any) -> Any:
        sample, split = self.sample, range(len(self))[split]
        if self.whole:
            return sample.everything(), sample.out_of_bag()
        return sample.train(split), sample.validation(split)


def bootstrap_generator(seed: int, *key: int) -> np.random.Generator:
    """The generator for a bootstrap; key 3 gives that of ``SeedSequence(seed).spawn(n)[3]``."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def draw_bootstrap(
    y: NDArray[Any],
    n_folds: int,
    generator: np.random.Generator,
    weights: NDArray[np.float64] | None = None,
) -> Bootstrap:
    """Shuffle the rows, cut them into folds, and resample with replacement within each fold.

    The shuffled rows of each class are dealt out to the folds in turn, so that sizes
    differ by at most one, and so does the number of rows of a class. The study that this
    program grew from cuts a plain shuffle; with few rows its folds would differ in difficulty
    by chance. Resampling is uniform, or in proportion to ``weights``.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Class codes.
    n_folds : int
        At least 2, at most n_samples / 2.
    generator : numpy.random.Generator
        Equal states give equal bootstraps.
    weights : float64 array of shape (n_samples,), optional
        None of them negative. A row of weight 0 is in a fold, but is never drawn.

    Returns
    -------
    Bootstrap

    Raises
    ------
    InputError
        There are fewer than two folds, or more than half as many folds as rows.
    """
    if n_folds < 2:
        raise InputError(f"{opt('folds')} must be at least 2, got {n_folds}")
    if 2 * n_folds > len(y):  # in a fold of one row, every member would draw that row
        max_folds = len(y) // 2
        way_out = f"use {opt('folds', max_folds)} or fewer, or " if max_folds > 1 else ""
        raise InputError(
            f"{opt('folds')} must be at most half the training rows, for a bootstrap within folds, "
            f"got {n_folds} for {len(y)}; {way_out}add rows"
        )
    shuffled = generator.permutation(len(y))
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    folds = [np.sort(by_class[fold::n_folds]).astype(np.int32) for fold in range(n_folds)]
    if weights is None:
        samples = [fold[generator.integers(0, len(fold), len(fold))] for fold in folds]
    else:
        totals = [weights[fold].sum() for fold in folds]
        samples = [
            generator.choice(fold, len(fold), p=weights[fold] / total) if total else fold[:0]
            for fold, total in zip(folds, totals, strict=True)
        ]
    return Bootstrap(tuple(folds), tuple(samples))
