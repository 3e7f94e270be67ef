"""Accelerates the searches of a script: fits share work where the results stay the same.

A fit that shares nothing is made by the very call that scikit-learn meant for it. In one process
the calls keep their order, so that all of them draw from the global random generators as they
would have: a script that seeds numpy gets its own numbers.
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
    """The result of one call of a search.

    Attributes
    ----------
    number : int
        Index of the call among those of the search.
    result : dict
        What ``_fit_and_score`` would have returned.
    n_fits : int, default 1
        Fits computed for it; 0 for a result that was kept from an earlier run.
    in_turn : callable, optional
        Work that remains to be done when the result is handed over, in the order of the calls.
    entries : sequence of SearchEntry
        Searches that ran within the call, in another process.
    """

    number: int
    result: dict[str, Any]
    n_fits: int = 1
    in_turn: Callable[[], None] | None = None
    entries: Sequence[SearchEntry] = ()


class Acceleration:
    """Carries out the fits of any search; fits that share work are made together.

    Parameters
    ----------
    client : distributed.Client, optional
        Client of the Dask cluster whose workers fit; by default this process, or as many processes
        as the search's ``n_jobs`` says.
    kept : KeptFits, optional
        Folder in which fits are kept, and in which those of an earlier run are found.

    Attributes
    ----------
    log : SearchLog
        The searches, and how many fits each took.
    """

    def __init__(self, client: Client | None = None, kept: KeptFits | None = None) -> None:
        self.log = SearchLog()
        self._client, self._kept = client, kept
        self._seconds_missed = dict[str, float]()  # see ``sharing_groups``

    def results(
        self, first_call: Call, other_calls: Iterator[Call], usual_way: UsualWay
    ) -> Iterator[dict[str, Any]]:
        """The results of a search's fits, in the order of its calls; see ``Searches``."""
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
        """The results of fits that share nothing; the search may generate splits in between."""
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
        """Write the kept fits to disk and release their folder."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _results_kept(
        self, calls: FitCalls, entry: SearchEntry
    ) -> dict[int, dict[str, Any]] | None:
        """Results of an earlier run, by call number; None if this search cannot keep any."""
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
        """Carry out the calls with these numbers and yield each result as soon as it is ready."""
        if not numbers:
            entry.reason = "all its fits are kept from before"
            return
        problem: Problem | None = None
        tasks: Mapping[int, Task] = {}
        # A nested search is fitted in this process, so that the workers make its inner fits.
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
            except Exception as error:  # the plain call will raise the error that a user expects
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
        """Yield the results of a task; nothing where it failed or drew random numbers.

        The caller then makes the plain calls. A shared fit that draws from a global generator
        would leave it in another state than separate fits do.
        """
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
                        entry.note = f"fitted apart: {fit.apart}"  # the shared work is missing
                        break
                    fits.append(fit)
        except Exception as error:  # the plain calls, made next, raise the user's own error
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
        """Have joblib's usual backend make several calls at once; yield their results."""
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
        """Have the workers of a Dask cluster make the fits; yield their results."""
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
            # The seed of a search is the generators' state: without this, a second search of the
            # script would draw the same numbers.
            np.random.random()  # noqa: NPY002


def _warn_of_limit(entry: SearchEntry) -> None:
    """Warn once of shared fits that did not converge, as these have issued no warning."""
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
    """The result of a call, from a fit of the engine; counts fits that did not converge.

    Parameters
    ----------
    problem : Problem
    calls : FitCalls
        All calls of the search.
    group : CandidateGroup
        Group of the fit's candidate.
    fit : Fit
        Scored, with the numbers of its candidate and split.
    entry : SearchEntry
        Its ``n_at_limit`` grows by a fit that ended at its limit of iterations.
    as_called : bool, default True
        Whether to leave the global random generator as the plain call would have left it.

    Returns
    -------
    MadeFit
    """
    number = calls.numbers[fit.candidate, fit.split]

    def in_turn() -> None:
        print_fit(calls.arguments[number], fit.scores)
        # A plain fit has drawn its own random numbers; a shared one has to catch up.
        if as_called and group.shared is not None and not fit.apart:
            group.shared.draw(problem.candidates[fit.candidate].final)

    is_silent = group.shared is not None and group.shared.predictions_only
    entry.n_at_limit += is_silent and not (fit.apart or fit.converged)
    return MadeFit(number, calls.result(number, fit.scores), fit.n_fits, in_turn)


def why_apart(calls: FitCalls) -> str:
    """Why the fits of a search can share nothing; empty where they might."""
    if calls.first.get("return_estimator"):
        return "it keeps every fitted estimator"
    if calls.has_callbacks:
        return "it has callbacks"
    return "" if calls.is_grid else "its fits are of different data"


def run_call(number: int, call: Call) -> MadeFit:
    """Make a call in another process, where a search within it shares work, too."""
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
    client, results
        See ``pipelines.accelerate``.
    nesting_level : int, optional
        Nesting level as joblib counts it, where the backend is the default of the process.
    acceleration : Acceleration, optional
        Used in place of a new one.

    Returns
    -------
    SearchBackend
    """
    from pipelines.search.joblib_backend import SearchBackend  # here, as it imports scikit-learn

    return SearchBackend(acceleration or acceleration_of(client, results), nesting_level)


def acceleration_of(client: Client | None, results: str | Path | None) -> Acceleration:
    """The ``Acceleration`` for a client and a folder of results; see ``pipelines.accelerate``."""
    if results is None:
        return Acceleration(client)
    from pipelines.search.kept_fits import KeptFits

    return Acceleration(client, KeptFits(results))
