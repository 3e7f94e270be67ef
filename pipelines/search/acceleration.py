"""scikit-learn's own searches, whose fits share work where that gives what each would give.

A fit that shares nothing is made by the very call that scikit-learn meant for it. In one process
the calls keep their order, so that all of them draw from the global generators of random numbers
as they would have: a script that seeds numpy gets its own numbers.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import parallel_config

from pipelines.errors import error_line
from pipelines.search.calls import Call, FitCalls, print_fit
from pipelines.search.search_log import SearchEntry, SearchLog, entry_of
from pipelines.search.shared import may_share

if TYPE_CHECKING:
    from distributed import Client

    from pipelines.data.fits import Fit
    from pipelines.search.fitting import CandidateGroup
    from pipelines.search.joblib_backend import SearchBackend, UsualWay
    from pipelines.search.kept_fits import KeptFits
    from pipelines.search.tasks import Problem, Task

APART = "its fits have nothing in common, or are over too soon"


@dataclass(frozen=True)
class MadeFit:
    """The result of a call.

    Attributes
    ----------
    number : of the call
    n_fits : that were made for it
    in_turn : what is left to do when its turn comes
    entries : searches that were carried out within it, in another process
    """

    number: int
    result: dict[str, Any]
    n_fits: int = 1
    in_turn: Callable[[], None] | None = None
    entries: Sequence[SearchEntry] = ()


class Acceleration:
    """Carries out the fits of any search, those that share work together.

    Parameters
    ----------
    client : distributed.Client, optional
        Whose workers fit; by default this process, or as many as the search's ``n_jobs`` says.
    kept : KeptFits, optional
        Where fits are kept, and those of an earlier run are found.
    """

    def __init__(self, client: Client | None = None, kept: KeptFits | None = None) -> None:
        self.log = SearchLog()
        self._client, self._kept = client, kept
        self._seconds_missed = dict[str, float]()  # see ``sharing_groups``

    def results(
        self, first_call: Call, other_calls: Iterator[Call], usual_way: UsualWay
    ) -> Iterator[dict[str, Any]]:
        """The results of the fits of a search, in their order; see ``Searches``."""
        known_calls = FitCalls([first_call])
        is_here = self._client is None and self._kept is None
        nested = known_calls.has_searches and usual_way.n_jobs > 1  # which share in their processes
        shares = may_share(known_calls.first, known_calls.first["parameters"] is not None)
        if is_here and not nested and not shares:
            return self._plain(first_call, other_calls, usual_way)
        return self._results(FitCalls([first_call, *other_calls]), usual_way)

    def _plain(
        self, first_call: Call, other_calls: Iterator[Call], usual_way: UsualWay
    ) -> Iterator[dict[str, Any]]:
        """The results of fits that share nothing; splits may be drawn between them."""
        entry, began = entry_of(FitCalls([first_call]).first["estimator"]), time.perf_counter()
        entry.reason = APART
        self.log.entries.append(entry)
        for result in usual_way(chain([first_call], other_calls)):
            entry.n_asked += 1
            entry.n_made += 1
            entry.seconds = time.perf_counter() - began
            yield result

    def _results(self, calls: FitCalls, usual_way: UsualWay) -> Iterator[dict[str, Any]]:
        entry, began = entry_of(calls.first["estimator"]), time.perf_counter()
        entry.n_asked = len(calls.calls)
        self.log.entries.append(entry)
        kept_results = self._results_kept(calls, entry)
        finished_fits = {
            number: MadeFit(number, result, 0) for number, result in (kept_results or {}).items()
        }
        numbers = [number for number in range(entry.n_asked) if number not in finished_fits]
        next_number = 0
        try:
            with closing(self._fits_of_calls(calls, numbers, usual_way, entry)) as fits:
                for fit in fits:
                    finished_fits[fit.number] = fit
                    self.log.entries += [
                        replace(nested, script_line=entry.script_line) for nested in fit.entries
                    ]
                    entry.n_made += fit.n_fits
                    entry.seconds = time.perf_counter() - began
                    if self._kept is not None and kept_results is not None:
                        self._kept.keep(calls, fit.number, fit.result)
                    while next_number in finished_fits:
                        yield _in_turn(finished_fits.pop(next_number))
                        next_number += 1
        finally:
            if self._kept is not None:
                self._kept.write()
        yield from (
            _in_turn(finished_fits.pop(number)) for number in range(next_number, entry.n_asked)
        )
        if entry.n_at_limit:
            _warn_of_limit(entry)

    def close(self) -> None:
        """Write what is kept, and let others write to its folder."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _results_kept(
        self, calls: FitCalls, entry: SearchEntry
    ) -> dict[int, dict[str, Any]] | None:
        """The results of an earlier run, by the numbers of their calls; None where none is kept."""
        if self._kept is None:
            return None
        if calls.first.get("return_estimator"):
            entry.note = "its fits are not kept: it wants every fitted estimator"
            return None
        try:
            results = self._kept.results(calls)
        except ValueError as error:
            entry.note = f"its fits are not kept: {error}"
            return None
        entry.n_kept = len(results)
        if calls.first.get("return_parameters"):
            for number, result in results.items():
                result["parameters"] = calls.arguments[number]["parameters"]
        return results

    def _fits_of_calls(
        self, calls: FitCalls, numbers: Sequence[int], usual_way: UsualWay, entry: SearchEntry
    ) -> Generator[MadeFit]:
        """Yield the results of the calls of these numbers, each as soon as it is there."""
        if not numbers:
            entry.reason = "all its fits are kept from before"
            return
        problem: Problem | None = None
        tasks: Mapping[int, Task] = {}
        # What searches itself is fitted here, so that its own fits are made by the workers.
        client = None if calls.has_searches else self._client
        has_candidates = any(call["parameters"] is not None for call in calls.arguments)
        can_share = client is not None or any(
            may_share(call, has_candidates) for call in calls.arguments
        )
        entry.reason = why_apart(calls) if can_share else APART
        if client is not None and not entry.reason:
            yield from self._by_workers(calls, numbers, entry, client)
            return
        n_jobs = usual_way.n_jobs if self._client is None else 1
        if not entry.reason:
            from pipelines.search.from_calls import names_of, problem_of, shared_tasks

            try:
                problem = problem_of(calls, as_called=n_jobs == 1)
                tasks = shared_tasks(problem, calls, numbers, self._seconds_missed)
            except Exception as error:  # what is wrong with a call, the call says itself
                entry.reason = error_line(error)
            else:
                entry.shared = names_of(problem, set(tasks.values()))
                entry.reason = "" if tasks else APART
        if n_jobs > 1:
            yield from self._at_once(problem, calls, numbers, tasks, usual_way, entry)
            return
        done_numbers = set[int]()
        for number in numbers:
            if problem is not None and number in tasks and number not in done_numbers:
                for fit in self._shared(problem, calls, tasks[number], entry):
                    done_numbers.add(fit.number)
                    yield fit
            if number not in done_numbers:
                function, arguments, keywords = calls.calls[number]
                yield MadeFit(number, function(*arguments, **keywords))

    def _shared(
        self, problem: Problem, calls: FitCalls, task: Task, entry: SearchEntry
    ) -> Iterator[MadeFit]:
        """Yield the results of a task; none where it fails, or draws as each of its fits would."""
        from pipelines.data.fits import Fit
        from pipelines.data.generators import state_of_generators
        from pipelines.search.fitting import PLAIN
        from pipelines.search.from_calls import scored_fits

        group, fits = problem.groups[task.group], list[Fit]()
        state, state_before = np.random.get_state(), state_of_generators()  # noqa: NPY002
        try:
            with closing(scored_fits(problem, task)) as items:
                for fit in items:
                    if fit.apart and group.name != PLAIN:
                        entry.note = (
                            f"fitted apart: {fit.apart}"  # what it was to share is not there
                        )
                        break
                    fits.append(fit)
        except Exception as error:  # its calls, each by itself, say what is wrong
            entry.note = f"fitted apart: {error_line(error)}"
        has_drawn = group.name != PLAIN and state_of_generators() != state_before
        if has_drawn:
            entry.note = "fitted apart: what it shares draws without a seed"
        if has_drawn or len(fits) < len(task.cell_keys):
            np.random.set_state(state)  # noqa: NPY002
            return
        yield from (made_fit(problem, calls, group, fit, entry) for fit in fits)

    def _at_once(
        self,
        problem: Problem | None,
        calls: FitCalls,
        numbers: Sequence[int],
        tasks: Mapping[int, Task],
        usual_way: UsualWay,
        entry: SearchEntry,
    ) -> Iterator[MadeFit]:
        """Yield the results of calls that the usual backend makes, several at once."""
        delayed, delayed_calls = usual_way.delayed, list[Call]()
        if problem is not None and tasks:
            from pipelines.search.executor import batch_numbers
            from pipelines.search.from_calls import fits_of_batch
            from pipelines.search.task_feed import cut_for_workers

            distinct_tasks = cut_for_workers(
                problem, list(dict.fromkeys(tasks.values())), usual_way.n_jobs
            )
            delayed_calls += [
                delayed(fits_of_batch)(problem, [distinct_tasks[i] for i in batch])
                for batch in batch_numbers(problem, distinct_tasks, usual_way.n_jobs)
            ]
        apart_numbers = [number for number in numbers if number not in tasks]
        if not delayed_calls and self._kept is None and not calls.has_searches:
            plain_results = usual_way.at_once(
                [calls.calls[number] for number in apart_numbers], "generator"
            )
            results = zip(apart_numbers, plain_results, strict=True)
            yield from (MadeFit(number, result) for number, result in results)
            return
        delayed_calls += [
            delayed(run_call)(number, calls.calls[number]) for number in apart_numbers
        ]
        for result in usual_way.at_once(delayed_calls, "generator_unordered"):
            if isinstance(result, MadeFit):
                yield result
            else:
                assert problem is not None
                for number, fit in result:
                    group = problem.groups[number]
                    yield made_fit(problem, calls, group, fit, entry, as_called=False)

    def _by_workers(
        self, calls: FitCalls, numbers: Sequence[int], entry: SearchEntry, client: Client
    ) -> Iterator[MadeFit]:
        """Yield the results of fits that the workers of a cluster make."""
        from cluster_setup.workers import describe_workers, threads_per_task
        from pipelines.run.runners import OnCluster
        from pipelines.search.executor import SearchExecutor
        from pipelines.search.from_calls import group_tasks, names_of, problem_of, sharing_groups

        problem, runner = problem_of(calls), OnCluster(client)
        n_threads = threads_per_task(describe_workers(client))
        executor = SearchExecutor(runner, n_threads=n_threads)
        shared = group_tasks(problem, calls, numbers, sharing_groups(problem))
        entry.shared = names_of(problem, shared)
        entry.reason = "" if shared else APART
        tasks = group_tasks(problem, calls, numbers, problem.groups, runner.n_workers)
        try:
            with closing(executor.outcomes(problem, None, {"verbose": 0}, tasks)) as outcomes:
                for outcome in outcomes:
                    group = problem.groups[outcome.task.group]
                    for fit in outcome.result:
                        yield made_fit(problem, calls, group, fit, entry, as_called=False)
        finally:
            runner.close()
            np.random.random()  # noqa: NPY002 - the next search draws others


def _warn_of_limit(entry: SearchEntry) -> None:
    """Warn of fits that share work and did not converge, which have not warned themselves."""
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"{entry.n_at_limit} of {entry.n_asked} fits did not converge within max_iter; raise it or "
        "tol, or scale the data",
        ConvergenceWarning,
        stacklevel=2,
    )


def _in_turn(fit: MadeFit) -> dict[str, Any]:
    if fit.in_turn is not None:
        fit.in_turn()
    return fit.result


def made_fit(
    problem: Problem,
    calls: FitCalls,
    group: CandidateGroup,
    fit: Fit,
    entry: SearchEntry,
    as_called: bool = True,
) -> MadeFit:
    """A fit of the engine's as the result of a call; what did not converge is counted.

    Parameters
    ----------
    group : of its candidate
    as_called : whether the global generator is to be left as the calls would have left it
    """
    number = calls.numbers[fit.candidate, fit.split]

    def in_turn() -> None:
        print_fit(calls.arguments[number], fit.scores)
        if as_called and group.shared is not None and not fit.apart:  # else it has drawn itself
            group.shared.draw(problem.candidates[fit.candidate].final)

    is_silent = group.shared is not None and group.shared.predictions_only
    entry.n_at_limit += is_silent and not (fit.apart or fit.converged)
    return MadeFit(number, calls.result(number, fit.scores), fit.n_fits, in_turn)


def why_apart(calls: FitCalls) -> str:
    """Why the fits of a search can share nothing; empty where they may."""
    if calls.first.get("return_estimator"):
        return "it keeps every fitted estimator"
    if calls.has_callbacks:
        return "it has callbacks"
    return "" if calls.is_grid else "its fits are of different data"


def run_call(number: int, call: Call) -> MadeFit:
    """The result of a call; a search within it shares its work, too."""
    from pipelines.search.joblib_backend import SearchBackend

    function, arguments, keywords = call
    acceleration = Acceleration()
    with parallel_config(SearchBackend(acceleration)):
        result = function(*arguments, **keywords)
    return MadeFit(number, result, entries=acceleration.log.entries)


def search_backend(
    client: Client | None = None,
    results: str | Path | None = None,
    nesting_level: int | None = None,
    acceleration: Acceleration | None = None,
) -> SearchBackend:
    """The joblib backend ``"pleasingly"``, on which searches share their work.

    Parameters
    ----------
    client, results : see ``pipelines.accelerate``
    nesting_level : int, optional
        As joblib counts it, where this is the default of the process.
    acceleration : in place of one of its own
    """
    from pipelines.search.joblib_backend import SearchBackend  # which needs scikit-learn

    return SearchBackend(acceleration or acceleration_of(client, results), nesting_level)


def acceleration_of(client: Client | None, results: str | Path | None) -> Acceleration:
    """What carries out the fits of searches; see ``pipelines.accelerate``."""
    if results is None:
        return Acceleration(client)
    from pipelines.search.kept_fits import KeptFits

    return Acceleration(client, KeptFits(results))
