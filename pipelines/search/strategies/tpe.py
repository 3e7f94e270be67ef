"""Candidates drawn where earlier ones were good, by Optuna's tree-structured Parzen estimator.

Optuna keeps its trials in memory only, as the journal has all rows. A resumed search draws its
candidates again, from the scores that are there.

References
----------
Bergstra, Bardenet, Bengio and Kégl, Algorithms for hyper-parameter optimization, NIPS 24, 2011.

Akiba, Sano, Yanase, Ohta and Koyama, Optuna: a next-generation hyperparameter optimization
framework, KDD 2019.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_setup.installation import install_line
from pipelines.errors import InputError, opt
from pipelines.search.spaces import N_ITER, Branch, Choice, Distribution
from pipelines.search.strategies.base import WHOLE, Request, Scope, Strategy

if TYPE_CHECKING:
    import optuna

# A candidate is drawn without the scores of the last few before it, which may still be at work:
# ``n_iter`` by the divisor, but at least this many.
LEAST_WINDOW, WINDOW_DIVISOR = 4, 8
# The first candidates are drawn at random: ``n_iter`` by the divisor, but at most this many.
MOST_STARTUP, STARTUP_DIVISOR = 10, 4
TRIES, RANDOM_TRIES = 5, 50  # draws, by scores and then at random, for a candidate that is new
BRANCH = "branch"


@dataclass(frozen=True)
class CandidateSource:
    """The distributions from which the candidates of an algorithm are drawn.

    Attributes
    ----------
    branches : sequence of Branch
        A candidate has the parameters of one of them.
    add : function of a dict of parameters
        Makes a candidate of drawn parameters, and returns its number.
    """

    branches: Sequence[Branch]
    add: Callable[[Mapping[str, Any]], int]


@dataclass(eq=False)
class Study:
    """The candidates drawn from a source, in order.

    Attributes
    ----------
    source : CandidateSource
    n_startup : int
        Number of candidates that are drawn at random first.
    seeds : (int, int)
        Seeds of the sampler, and of random draws once it finds nothing new.
    trials : list of int
        Optuna's number of each candidate.
    candidates : list of int
        The source's number of each candidate.
    n_told : int
        Number of candidates whose scores the sampler knows.
    is_exhausted : bool
        Whether no new candidate was found at the last draw.
    """

    source: CandidateSource
    n_startup: int
    seeds: tuple[int, int]
    trials: list[int] = field(default_factory=list)
    candidates: list[int] = field(default_factory=list)
    n_told: int = 0
    is_exhausted: bool = False
    _drawn: set[str] = field(default_factory=set)

    @cached_property
    def _study(self) -> optuna.Study:
        """Optuna's study, in memory; made at the first draw, which imports Optuna."""
        import optuna

        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # else it logs each new study
        try:
            return optuna.create_study(direction="maximize", sampler=self._sampler)
        finally:
            optuna.logging.set_verbosity(verbosity)

    @cached_property
    def _sampler(self) -> optuna.samplers.BaseSampler:
        import optuna

        # ``group``: the parameters of a branch are drawn together. ``constant_liar``: candidates
        # still at work count as bad, so that the next draw does not land beside them.
        several = len(self.source.branches) > 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.TPESampler(
                seed=self.seeds[0],
                n_startup_trials=self.n_startup,
                multivariate=True,
                group=several,
                constant_liar=True,
            )

    @cached_property
    def _random(self) -> optuna.samplers.BaseSampler:
        """For draws after the sampler found nothing new."""
        import optuna

        return optuna.samplers.RandomSampler(seed=self.seeds[1])

    def draw(self) -> int | None:
        """Draw a new candidate; return its number, or None where no new one is found."""
        for number in range(TRIES + RANDOM_TRIES):
            # The sampler may draw the same few again and again; random draws then find the others.
            self._study.sampler = self._sampler if number < TRIES else self._random
            trial = self._study.ask()
            parameters = suggested_parameters(trial, self.source.branches)
            text = repr(sorted(parameters.items()))
            if text not in self._drawn:
                self._drawn.add(text)
                self.trials.append(trial.number)
                self.candidates.append(self.source.add(parameters))
                return self.candidates[-1]
            self.tell(trial.number, None)
        self.is_exhausted = True
        return None

    def tell(self, trial: int, score: float | None) -> None:
        """Tell the sampler the score of a trial, None for a failed one."""
        import optuna

        failed = optuna.trial.TrialState.FAIL
        self._study.tell(trial, score, state=failed if score is None else None)


class TPE(Strategy):
    """Candidates drawn by Optuna's ``TPESampler``, each on every split.

    A candidate is drawn from the scores of all earlier ones but the last few, whose number
    ``window`` depends on ``n_iter`` alone. So it does not matter which fit is done first, and at
    most ``window`` candidates of an algorithm are at work at once. Each algorithm has a study of
    its own; all studies draw in step.

    Parameters
    ----------
    scope : Scope
        Its groups are not used.
    sources : sequence of CandidateSource
        One for each algorithm.
    n_iter : int, optional
        Candidates of each algorithm; fewer if there are not enough distinct ones.

    Raises
    ------
    InputError
        Optuna is not installed.

    Attributes
    ----------
    window : int
        Number of the latest candidates that a draw does not take into account.
    studies : list of Study
    """

    draws = True

    def __init__(
        self, scope: Scope, sources: Sequence[CandidateSource], n_iter: int = N_ITER
    ) -> None:
        super().__init__(scope)
        need_optuna()
        self.n_iter = n_iter
        self.window = max(LEAST_WINDOW, -(-n_iter // WINDOW_DIVISOR))
        n_startup = min(MOST_STARTUP, max(2, n_iter // STARTUP_DIVISOR))
        seeds = np.random.SeedSequence(scope.seed).spawn(len(sources))
        self.studies = [
            Study(source, n_startup, tuple(seed.generate_state(2).tolist()))
            for source, seed in zip(sources, seeds, strict=True)
        ]
        self._n_drawn = 0

    def ask(self) -> Sequence[Request] | None:
        """See ``Strategy.ask``; draws as many candidates as the scores that are there allow."""
        requests = list[Request]()
        while self._n_drawn < self.n_iter and self._tell_studies(self._n_drawn - self.window + 1):
            for study in self.studies:
                if not study.is_exhausted and (candidate := study.draw()) is not None:
                    requests.append(Request((candidate,), self.scope.splits))
            self._n_drawn += 1
        cells = dict.fromkeys(cell for request in requests for cell in request.cells)
        self.requested_cells |= cells
        if (
            requests
            or self._n_drawn < self.n_iter
            or self.requested_cells.keys() - self.rows.keys()
        ):
            return requests
        return None

    def _tell_studies(self, n: int) -> bool:
        """Tell the samplers the scores of the first n candidates; False while one is missing."""
        new = [
            (study, i)
            for study in self.studies
            for i in range(study.n_told, min(n, len(study.candidates)))
        ]
        cells = (
            (study.candidates[i], split, WHOLE) for study, i in new for split in self.scope.splits
        )
        if not all(cell in self.rows for cell in cells):
            return False
        for study, i in new:
            study.tell(study.trials[i], self._mean(study.candidates[i]))
            study.n_told = i + 1
        return True

    def _mean(self, candidate: int) -> float | None:
        """The mean score of a candidate; None where a fit failed."""
        scores = [self.score(candidate, split) for split in self.scope.splits]
        known_scores = [score for score in scores if score is not None]
        return None if len(known_scores) < len(scores) else float(np.mean(known_scores))


def suggested_parameters(trial: optuna.Trial, branches: Sequence[Branch]) -> dict[str, Any]:
    """The parameters that a trial suggests, from the branch that it suggests first."""
    number, prefix = 0, ""
    if len(branches) > 1:
        number = trial.suggest_categorical(BRANCH, range(len(branches)))
        prefix = f"{number} "
    parameters = branches[number].parameters.items()
    return {
        name: suggested_value(trial, prefix + name, distribution)
        for name, distribution in parameters
    }


def suggested_value(trial: optuna.Trial, name: str, distribution: Distribution) -> Any:
    """The value that a trial suggests for a parameter.

    An ascending list of numbers is suggested by position, so that the sampler knows which values
    are neighbours. Any other list is categorical.

    Parameters
    ----------
    trial : optuna.Trial
    name : str
        Optuna's name of the parameter, unique among those of all branches.
    distribution : Distribution
    """
    bounds = distribution.bounds
    low, high, log = bounds.low, bounds.high, bounds.log
    if bounds.value_type == "float":
        return trial.suggest_float(name, low, high, log=log)
    if bounds.value_type == "int":
        return trial.suggest_int(name, int(low), int(high), log=log)
    if bounds.value_type == "unit":
        return distribution.at(trial.suggest_float(name, low, float(np.nextafter(high, low))))
    assert isinstance(distribution, Choice)
    values = distribution.values
    if is_axis(values):
        return values[trial.suggest_int(name, 0, len(values) - 1)]
    return values[trial.suggest_categorical(name, range(len(values)))]


def is_axis(values: Sequence[Any]) -> bool:
    """Whether values are strictly ascending numbers."""
    are_numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )
    return are_numbers and all(value < next_value for value, next_value in pairwise(values))


def need_optuna() -> None:
    """Check that Optuna is installed.

    Raises
    ------
    InputError
        Optuna is not installed.
    """
    if find_spec("optuna") is None:
        raise InputError(
            f"{opt('strategy', 'tpe')} needs Optuna, which is not installed; run "
            f"{install_line('tpe')}"
        )
