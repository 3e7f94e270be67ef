"""Problems solved on a pool, and each fold given as soon as it is done."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, wait
from queue import SimpleQueue
from typing import TypeVar

from pipelines.svm.cpu.threads import CallersThread

Found = TypeVar("Found")
Job = Sequence[tuple[int, int]]  # (problem, fold), one after another on a thread

# Rows from which folds are solved in turn. Below, the folds of a problem follow each other:
# its block of the kernel is then still in cache.
ROWS_FOR_TURNS = 4_000


def jobs_in_order(numbers: Sequence[int], folds: Sequence[int], n_rows: int) -> list[Job]:
    """Return jobs of all problems on all folds.

    Parameters
    ----------
    numbers : of problems, the longest first
    folds : numbers of folds
    n_rows : int, of the whole data set
    """
    if n_rows >= ROWS_FOR_TURNS:
        return [[(number, fold)] for fold in folds for number in numbers]
    jobs: list[Job] = [[(number, fold) for fold in folds] for number in numbers]
    # One job for all folds of a problem, where enough are left to balance the threads.
    return jobs if len(jobs) >= 16 else [[one] for job in jobs for one in job]


def solve_by_fold(
    jobs: Sequence[Job],
    solve: Callable[[int, int], None],
    finish: Callable[[int], Found],
    pool: Executor | None,
    on_progress: Callable[[float], None],
) -> Iterator[tuple[int, Found]]:
    """Solve problems; give each fold with what ``finish`` makes of it.

    Parameters
    ----------
    jobs : sequence of Job, begun in this order
    solve : function of problem and fold
    finish : function of a fold, called on the thread that solved its last problem
    pool : executor, or None for the caller's thread
    on_progress : function of the share of the problems that are solved
    """
    left = Counter(fold for job in jobs for _, fold in job)
    n_jobs, guard = left.total(), threading.Lock()
    done: SimpleQueue[tuple[int, Found] | BaseException] = SimpleQueue()

    def run(job: Job) -> None:
        try:
            for number, fold in job:
                solve(number, fold)
                with guard:
                    left[fold] -= 1
                    is_last, share = left[fold] == 0, 1 - left.total() / n_jobs
                on_progress(share)
                if is_last:
                    done.put((fold, finish(fold)))
        except BaseException as error:
            done.put(error)

    def given() -> tuple[int, Found]:
        one = done.get()
        if isinstance(one, BaseException):
            raise one
        return one

    if pool is None or isinstance(pool, CallersThread):  # each fold is given before the next
        for job in jobs:
            run(job)
            while not done.empty():
                yield given()
        return
    futures = [pool.submit(run, job) for job in jobs]
    try:
        for _ in range(len(left)):
            yield given()
    finally:
        for future in futures:
            future.cancel()
        wait(futures)
