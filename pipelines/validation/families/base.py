"""What a family is: estimators of one class whose fits on the same rows share work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from pipelines.validation.identity import identity, is_repeatable

SEED = "random_state"


class Family(ABC):
    """Estimators that differ in a few parameters only, and what they share.

    Attributes
    ----------
    name : str
        For a report.
    types : the classes it knows; a subclass may do anything, so it is none of them
    shared : names of the parameters in which members of a group may differ
    by_chance : bool
        Whether a fit depends on its seed: then equal seeds are needed.
    takes_weights : bool
        Whether ``fit`` takes ``sample_weight``.
    answers_only : bool
        Whether its fitted estimators have answers to give and no model: then it serves only
        where scores need nothing else.
    one_fit : bool
        Whether the whole group is one fit; otherwise each is one, made cheaper by the last.
    """

    name: ClassVar[str]
    types: ClassVar[Collection[type]]
    shared: ClassVar[Collection[str]]
    by_chance: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = True
    answers_only: ClassVar[bool] = False
    one_fit: ClassVar[bool] = True

    def key(self, estimator: Any) -> Hashable | None:
        """Equal for estimators that may share work; None for one that cannot."""
        if not self.accepts(estimator) or (self.by_chance and not is_repeatable(estimator)):
            return None
        return identity(estimator, {*self.shared, *(() if self.by_chance else (SEED,))})

    def accepts(self, estimator: Any) -> bool:
        """Whether the parameters are such that sharing gives what a plain fit gives."""
        return True

    @abstractmethod
    def fit(
        self, estimators: Sequence[Any], X: Any, y: Any, test: Any, **weights: Any
    ) -> list[Any]:
        """Fit estimators of one key.

        Parameters
        ----------
        estimators : unfitted; they may be used up
        X, y : training rows
        test : the rows that are to be answered
        weights : ``sample_weight``, where there is one

        Returns
        -------
        For each estimator a fitted one, as a plain fit would have left it.
        """

    def answers(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """What each says of the rows by ``method``; None where each has to be asked by itself."""
        return None


def parameters_of(estimators: Sequence[Any], name: str) -> list[Any]:
    """A parameter of each."""
    return [getattr(estimator, name) for estimator in estimators]
