"""Binary problems solved on a pool of threads; each fold is returned as soon as it is complete."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, wait
from queue import SimpleQueue
from typing import TypeVar

from pipelines.data.fits import Progress
from pipelines.svm.cpu.solver_threads import CallersThread

Found = TypeVar("Found")
Job = Sequence[tuple[int, int]]  # (problem, fold), one after another on a thread

# From this many rows, one fold is solved after the other, so that results come early. Below, the
# folds of a problem follow each other, while its block of the kernel is still in cache.
ROWS_FOR_TURNS = 4_000

SECONDS_BETWEEN_REPORTS = 0.1  # of progress; the end of a fold is reported in any case


def jobs_in_order(numbers: Sequence[int], folds: Sequence[int], n_rows: int) -> list[Job]:
    """The jobs of all problems on all folds, in the order in which they are begun.

    Parameters
    ----------
    numbers : sequence of int
        Numbers of the problems, the longest first.
    folds : sequence of int
    n_rows : int
        Rows of the whole data set.
    """
    if n_rows >= ROWS_FOR_TURNS:
        return [[(number, fold)] for fold in folds for number in numbers]
    jobs: list[Job] = [[(number, fold) for fold in folds] for number in numbers]
    # A job holds all folds of a problem if there are enough jobs to balance the threads.
    return jobs if len(jobs) >= 16 else [[part] for job in jobs for part in job]


def solve_by_fold(
    jobs: Sequence[Job],
    solve: Callable[[int, int], None],
    finish: Callable[[int], Found],
    pool: Executor | None,
) -> Iterator[tuple[int, Found] | Progress]:
    """Solve problems, and finish each fold as soon as its last problem is solved.

    Parameters
    ----------
    jobs : sequence of Job
        Begun in this order.
    solve : callable of problem and fold
    finish : callable of a fold
        Called on the thread that solved the last problem of the fold.
    pool : Executor or None
        None for the caller's thread.

    Yields
    ------
    (int, result of ``finish``) or Progress
        Each fold with its result, in no special order.
    """
    remaining = Counter(fold for job in jobs for _, fold in job)
    n_folds, n_jobs, guard = len(remaining), remaining.total(), threading.Lock()
    done: SimpleQueue[tuple[int, Found] | Progress | BaseException] = SimpleQueue()
    reported = time.monotonic()

    def run(job: Job) -> None:
        nonlocal reported
        try:
            for number, fold in job:
                solve(number, fold)
                with guard:
                    remaining[fold] -= 1
                    is_last, now = remaining[fold] == 0, time.monotonic()
                    is_due = is_last or now - reported >= SECONDS_BETWEEN_REPORTS
                    reported = now if is_due else reported
                    if is_due:
                        done.put(Progress(1 - remaining.total() / n_jobs))
                if is_last:
                    done.put((fold, finish(fold)))
        except BaseException as error:
            done.put(error)

    def next_done() -> tuple[int, Found] | Progress:
        item = done.get()
        if isinstance(item, BaseException):
            raise item
        return item

    if pool is None or isinstance(pool, CallersThread):  # each fold is yielded before the next
        for job in jobs:
            run(job)
            while not done.empty():
                yield next_done()
        return
    futures = [pool.submit(run, job) for job in jobs]
    try:
        while n_folds:
            item = next_done()
            n_folds -= not isinstance(item, Progress)
            yield item
    finally:
        for future in futures:
            future.cancel()
        wait(futures)
