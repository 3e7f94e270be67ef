"""The joblib backend that takes the fits of scikit-learn's searches, and passes on all else.

joblib hands a backend call after call and does not say what they are before the first has come. So
each ``Parallel`` is told to make its calls in turn, which is the way on which joblib's code meets
the calls themselves; there the fits of a search are taken, and other calls go to the backend that
would have served them without this, with all that their ``Parallel`` was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import joblib
from joblib.parallel import (
    BACKENDS,
    DEFAULT_PROCESS_BACKEND,
    DEFAULT_THREAD_BACKEND,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
    get_active_backend,
)
from sklearn.utils import parallel as of_sklearn

from pipelines.search.calls import Call, is_fit

OF_JOBLIB = ("verbose", "context")  # what joblib itself puts beside a backend's options


@dataclass(frozen=True, eq=False)
class UsualWay:
    """How joblib would serve the calls of a ``Parallel`` without this program.

    Attributes
    ----------
    parallel : the ``Parallel``
    backend : that would serve it
    n_jobs : how many calls it would make at once
    verbose : what the ``Parallel`` was told to say
    """

    parallel: Any
    backend: ParallelBackendBase
    n_jobs: int
    verbose: int

    def __call__(self, calls: Iterable[Call]) -> Iterator[Any]:
        """Yield the results of calls, as the ``Parallel`` was told to give them."""
        if self.n_jobs == 1:
            return (function(*arguments, **keywords) for function, arguments, keywords in calls)
        is_unordered = self.parallel.return_as == "generator_unordered"
        return self.at_once(calls, "generator_unordered" if is_unordered else "generator")

    @property
    def _is_sklearns(self) -> bool:
        return isinstance(self.parallel, of_sklearn.Parallel)

    @property
    def delayed(self) -> Callable[[Any], Callable[..., Call]]:
        """What turns a function into one that gives a call of it, for ``at_once``."""
        decorator: Callable[[Any], Callable[..., Call]]
        decorator = of_sklearn.delayed if self._is_sklearns else joblib.delayed
        return decorator

    def at_once(self, calls: Iterable[Call], return_as: str) -> Iterator[Any]:
        """Yield the results of calls that are made by ``n_jobs`` at once."""
        parallel = self.parallel
        options = {
            name: value for name, value in parallel._backend_kwargs.items() if name not in OF_JOBLIB
        }
        # A backend that can only give all at the end has joblib wait for them.
        if not self.backend.supports_return_generator:
            return_as = "list"
        parallel.verbose = 0  # what is made is said there
        parallel_class = of_sklearn.Parallel if self._is_sklearns else joblib.Parallel
        results: Iterable[Any] = parallel_class(
            n_jobs=parallel.n_jobs,
            backend=self.backend,
            return_as=return_as,
            verbose=self.verbose,
            timeout=parallel.timeout,
            pre_dispatch=parallel.pre_dispatch,
            batch_size=parallel.batch_size,
            **options,
        )(calls)
        return iter(results)


class Searches(Protocol):
    """What carries out the fits of searches."""

    def results(
        self, first_call: Call, other_calls: Iterator[Call], usual_way: UsualWay
    ) -> Iterable[dict[str, Any]] | None:
        """The results of the fits of a search, in their order; None of those it does not take.

        Parameters
        ----------
        first, others : the calls of ``_fit_and_score``; none is asked for where it takes them not
        usual : the way of these calls without this program
        """


class InTurn(SequentialBackend):
    """Calls that joblib makes one after the other, whatever becomes of each."""

    supports_timeout = True  # that of the usual way


class SearchBackend(ParallelBackendBase):
    """Gives the fits of searches to what carries them out; other calls go the usual way.

    Parameters
    ----------
    searches : what carries out fits
    nesting_level : int, optional
        As joblib counts it; given where this is the default of the process.
    """

    supports_return_generator = True
    supports_timeout = True
    supports_sharedmem = True  # the usual way sees to it

    def __init__(self, searches: Searches, nesting_level: int | None = None) -> None:
        super().__init__(nesting_level=nesting_level)
        self._searches = searches
        self._outer_backend: ParallelBackendBase | None = None  # joblib's own choice
        if nesting_level is None:
            active_backend = get_active_backend()[0]
            if isinstance(active_backend, SearchBackend):
                self._outer_backend = active_backend._outer_backend
            elif active_backend is get_active_backend()[0]:  # else joblib makes another each time
                self._outer_backend = active_backend
        if self._outer_backend is not None:
            self.uses_threads = self._outer_backend.uses_threads

    def _usual_backend(
        self, prefer: str | None = None, require: str | None = None
    ) -> ParallelBackendBase:
        """The backend that joblib would take with these hints if this were not there."""
        needs_shared_memory = require == "sharedmem"
        if self._outer_backend is None:
            name = (
                DEFAULT_THREAD_BACKEND
                if needs_shared_memory or prefer == "threads"
                else DEFAULT_PROCESS_BACKEND
            )
            return BACKENDS[name](nesting_level=self.nesting_level)
        if needs_shared_memory and not self._outer_backend.supports_sharedmem:
            return BACKENDS[DEFAULT_THREAD_BACKEND](nesting_level=self.nesting_level)
        return self._outer_backend

    def effective_n_jobs(self, n_jobs: int) -> int:
        """How many calls the usual backend makes at once, if asked for so many."""
        return int(self._usual_backend().effective_n_jobs(n_jobs))

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: str | None = None,
        require: str | None = None,
        **options: Any,
    ) -> int:
        """Have joblib make the calls of a ``Parallel`` in turn, as ``_routed`` gives them."""
        backend = self._usual_backend(prefer, require)
        n_jobs = int(backend.effective_n_jobs(n_jobs))
        usual_way = UsualWay(parallel, backend, n_jobs, parallel.verbose)
        in_turn: Callable[[Iterable[Call]], Iterator[Any]] = parallel._get_sequential_output

        def route_calls(calls: Iterable[Call]) -> Iterator[Any]:
            if parallel.return_generator:  # calls begin before a result is asked for
                return in_turn(self._route(calls, usual_way))
            return in_turn(self._route_lazily(calls, usual_way))

        parallel._get_sequential_output = route_calls
        raise FallbackToBackend(InTurn(nesting_level=self.nesting_level))

    def _route(self, calls: Iterable[Call], usual_way: UsualWay) -> Iterator[Call]:
        """The calls that are to be made in turn, or in their places ones that give the results."""
        calls = iter(calls)
        first_call, results = next(calls, None), None
        if first_call is None:
            return calls
        if is_fit(first_call):
            results = self._searches.results(first_call, calls, usual_way)
        calls = chain([first_call], calls)
        if results is None and usual_way.n_jobs == 1:
            return calls
        results = usual_way(calls) if results is None else results
        return ((_result, (result,), {}) for result in results)

    def _route_lazily(self, calls: Iterable[Call], usual_way: UsualWay) -> Iterator[Call]:
        """See ``_routed``; nothing begins before joblib minds what fails."""
        yield from self._route(calls, usual_way)


def _result(result: Any) -> Any:
    return result
