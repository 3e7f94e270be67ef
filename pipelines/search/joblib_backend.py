"""A joblib backend that takes over the fits of scikit-learn's searches and passes on all else.

joblib chooses a backend before it knows the calls. So this backend has each ``Parallel`` make its
calls sequentially, the one path on which joblib hands over the calls themselves. There the fits of
a search are taken over; other calls go to the backend that would have served them otherwise, with
all options of their ``Parallel``.
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

OF_JOBLIB = ("verbose", "context")  # joblib adds these to the options of a backend


@dataclass(frozen=True, eq=False)
class UsualWay:
    """How joblib would serve the calls of a ``Parallel`` without this backend.

    Attributes
    ----------
    parallel : Parallel
    backend : ParallelBackendBase
        The backend that would serve it.
    n_jobs : int
        Number of calls that it would make at once.
    verbose : int
        The ``verbose`` of the ``Parallel``.
    """

    parallel: Any
    backend: ParallelBackendBase
    n_jobs: int
    verbose: int

    def __call__(self, calls: Iterable[Call]) -> Iterator[Any]:
        """The results of calls, in the order that was asked of the ``Parallel``."""
        if self.n_jobs == 1:
            return (function(*arguments, **keywords) for function, arguments, keywords in calls)
        is_unordered = self.parallel.return_as == "generator_unordered"
        return self.at_once(calls, "generator_unordered" if is_unordered else "generator")

    @property
    def _is_sklearns(self) -> bool:
        return isinstance(self.parallel, of_sklearn.Parallel)

    @property
    def delayed(self) -> Callable[[Any], Callable[..., Call]]:
        """The ``delayed`` that belongs to the class of the ``Parallel``."""
        decorator: Callable[[Any], Callable[..., Call]]
        decorator = of_sklearn.delayed if self._is_sklearns else joblib.delayed
        return decorator

    def at_once(self, calls: Iterable[Call], return_as: str) -> Iterator[Any]:
        """The results of calls, ``n_jobs`` of which are made at once."""
        parallel = self.parallel
        options = {
            name: value for name, value in parallel._backend_kwargs.items() if name not in OF_JOBLIB
        }
        # Some backends return results only when all are ready.
        if not self.backend.supports_return_generator:
            return_as = "list"
        parallel.verbose = 0  # the inner ``Parallel`` reports instead
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
    """The interface of whatever carries out the fits of searches."""

    def results(
        self, first_call: Call, other_calls: Iterator[Call], usual_way: UsualWay
    ) -> Iterable[dict[str, Any]] | None:
        """The results of a search's fits, in the order of its calls; None if it declines them.

        Parameters
        ----------
        first_call, other_calls
            The calls of ``_fit_and_score``. If it declines, ``other_calls`` must be untouched.
        usual_way : UsualWay
            How joblib would make these calls otherwise.
        """


class InTurn(SequentialBackend):
    """joblib's sequential backend, whose calls ``SearchBackend`` replaces."""

    supports_timeout = True  # the backend of the usual way applies it


class SearchBackend(ParallelBackendBase):
    """Hands the fits of searches to an ``Acceleration`` or ``SearchExecutor``.

    All other calls go the usual way.

    Parameters
    ----------
    searches : Searches
        Carries out the fits.
    nesting_level : int, optional
        Nesting level as joblib counts it, where the backend is the default of the process.
    """

    supports_return_generator = True
    supports_timeout = True
    supports_sharedmem = True  # ``_usual_backend`` chooses one that does

    def __init__(self, searches: Searches, nesting_level: int | None = None) -> None:
        super().__init__(nesting_level=nesting_level)
        self._searches = searches
        self._outer_backend: ParallelBackendBase | None = None  # None: joblib chooses
        if nesting_level is None:
            active_backend = get_active_backend()[0]
            if isinstance(active_backend, SearchBackend):
                self._outer_backend = active_backend._outer_backend
            elif (
                active_backend is get_active_backend()[0]
            ):  # a default backend, created anew by each call, is left to joblib
                self._outer_backend = active_backend
        if self._outer_backend is not None:
            self.uses_threads = self._outer_backend.uses_threads

    def _usual_backend(
        self, prefer: str | None = None, require: str | None = None
    ) -> ParallelBackendBase:
        """The backend that joblib would choose by these hints if this one were not active."""
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
        """The number of calls that the usual backend makes at once for ``n_jobs``."""
        return int(self._usual_backend().effective_n_jobs(n_jobs))

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: str | None = None,
        require: str | None = None,
        **options: Any,
    ) -> int:
        """Have joblib make the calls of a ``Parallel`` in turn, as ``_route`` returns them.

        Raises
        ------
        FallbackToBackend
            Always: it is joblib's way to change to another backend.
        """
        backend = self._usual_backend(prefer, require)
        n_jobs = int(backend.effective_n_jobs(n_jobs))
        usual_way = UsualWay(parallel, backend, n_jobs, parallel.verbose)
        in_turn: Callable[[Iterable[Call]], Iterator[Any]] = parallel._get_sequential_output

        def route_calls(calls: Iterable[Call]) -> Iterator[Any]:
            if parallel.return_generator:  # calls start before the first result is requested
                return in_turn(self._route(calls, usual_way))
            return in_turn(self._route_lazily(calls, usual_way))

        parallel._get_sequential_output = route_calls
        raise FallbackToBackend(InTurn(nesting_level=self.nesting_level))

    def _route(self, calls: Iterable[Call], usual_way: UsualWay) -> Iterator[Call]:
        """The calls as they came, or trivial ones that return results computed elsewhere."""
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
        """Like ``_route``, but started by the first request, when joblib handles errors."""
        yield from self._route(calls, usual_way)


def _result(result: Any) -> Any:
    return result
