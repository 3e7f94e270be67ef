"""A bagging run laid out: everything chance decides, drawn from one seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.data.bootstrap import Bootstrap, draw_bootstrap
from pipelines.nn.space import Candidate, SearchSpace


@dataclass(frozen=True)
class Draws:
    """What one bootstrap's generator gives, in the order of drawing.

    More candidates come after the earlier ones, which stay the same; and each bootstrap
    has a generator of its own, so that more bootstraps change none.

    Attributes
    ----------
    sample : Bootstrap
    refit_seed : int
        Of the refit's first weights and orders.
    candidates : tuple of (Candidate, int)
        With the seed of each, from which its folds get theirs.
    """

    sample: Bootstrap
    refit_seed: int
    candidates: tuple[tuple[Candidate, int], ...]


def bootstrap_generator(seed: int, member: int) -> np.random.Generator:
    """The generator of one bootstrap, that of ``SeedSequence(seed).spawn(n)[member]``."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(member,)))


def draw_member(
    y: np.ndarray, n_folds: int, space: SearchSpace, n_candidates: int, seed: int, member: int
) -> Draws:
    """Everything chance decides for one member of the ensemble.

    Parameters
    ----------
    y : class codes of shape (n_samples,)
    n_folds, n_candidates : int
    space : SearchSpace
    seed : int
        Of the run.
    member : int
        Number of the bootstrap, from 0.
    """
    generator = bootstrap_generator(seed, member)
    sample = draw_bootstrap(y, n_folds, generator)
    refit_seed = _seed(generator)
    candidates = tuple((space.draw(generator), _seed(generator)) for _ in range(n_candidates))
    return Draws(sample, refit_seed, candidates)


def redraw_sample(
    y: np.ndarray, n_folds: int, seed: int, member: int, weights: np.ndarray | None = None
) -> Bootstrap:
    """The sample of ``draw_member``, where its seeds are known and its rows are not.

    With ``weights`` of the rows the folds are the same, and the rows drawn in proportion.
    """
    return draw_bootstrap(y, n_folds, bootstrap_generator(seed, member), weights)


def _seed(generator: np.random.Generator) -> int:
    return int(generator.integers(0, 2**63))
