"""Bootstrap samples that keep to their folds, so that nothing leaks from one to another."""

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
        Every row of the training set is in exactly one.
    samples : tuple of int32 arrays
        Of fold f as many rows as it has, drawn from it with replacement.
    """

    folds: tuple[Rows, ...]
    samples: tuple[Rows, ...]

    def train(self, fold: int) -> Rows:
        """The training samples of ``fold``: those drawn from all other folds."""
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
        """The samples of all folds, on which the best candidate is refitted."""
        return np.concatenate(self.samples)

    def out_of_bag(self, fold: int | None = None) -> Rows:
        """Rows that ``train(fold)``, or ``everything``, left out; ascending.

        About a third of them; none is in ``fold``.
        """
        other_folds = [rows for other_fold, rows in enumerate(self.folds) if other_fold != fold]
        drawn = self.everything() if fold is None else self.train(fold)
        return np.setdiff1d(np.concatenate(other_folds), drawn)


@dataclass(frozen=True, eq=False)
class BootstrapSplits(Sequence[Fold]):
    """The splits of a bootstrap: of each fold the rows to train on, which repeat, and to validate.

    They are drawn where the first is asked for, and kept with the rows: what travels is a seed.

    Attributes
    ----------
    data : FoldedData, whose classes the folds keep to, and whose weights the draws
    n_folds : int
    seed : of the run
    key : what names the bootstrap among those of the seed
    rows : int array of those that it is of; by default all
    whole : whether there is one split alone, of all that was drawn and all that was left out
    """

    data: FoldedData
    n_folds: int
    seed: int
    key: tuple[int, ...]
    rows: Rows | None = None
    whole: bool = False

    @property
    def sample(self) -> Bootstrap:
        """The bootstrap within folds."""

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
    """The generator of a bootstrap, of key 3 that of ``SeedSequence(seed).spawn(n)[3]``."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def draw_bootstrap(
    y: NDArray[Any],
    n_folds: int,
    generator: np.random.Generator,
    weights: NDArray[np.float64] | None = None,
) -> Bootstrap:
    """Shuffle, cut into folds, and resample with replacement within each.

    The shuffled rows of each class are dealt out to the folds in turn, so that sizes
    differ by at most one, and so does the number of rows of a class. The study cuts a
    plain shuffle; with few rows its folds would differ in difficulty by chance. The
    resampling is plain, or in proportion to weights.

    Parameters
    ----------
    y : class codes of shape (n_samples,)
    n_folds : at least 2, at most n_samples / 2
    generator : numpy Generator
        Equal states give equal samples.
    weights : of shape (n_samples,), optional
        None below 0. A row of weight 0 is never drawn; it is in a fold all the same.

    Raises
    ------
    InputError
        Too few folds, or more than half the rows.
    """
    if n_folds < 2:
        raise InputError(f"{opt('folds')} must be at least 2, got {n_folds}")
    if 2 * n_folds > len(y):  # every member would draw the one row of a fold
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
