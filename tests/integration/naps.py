"""Tasks that take time and no core, to be disturbed while they run.

What runs on a worker is defined inside functions, so that it travels by value: a worker
cannot import a test's files.
"""

from __future__ import annotations

from pipelines.run.runners import OnCluster


def naps(n_tasks, seconds):
    """Work that takes time and no core, and its tasks."""

    class Nap:
        cost = 1.0

        def __init__(self, number):
            self.number, self.name = number, f"nap-{number}"

    def work(shared, task):
        import time

        time.sleep(seconds)
        return shared + task.number

    return work, [Nap(number) for number in range(n_tasks)]


def all_done(outcomes, n_tasks):
    """Whether every task has its one right result."""
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    return sorted(outcome.result for outcome in outcomes) == list(range(100, 100 + n_tasks))


def begun(client, n_tasks, seconds):
    """A run on all workers, after its first outcomes."""
    work, tasks = naps(n_tasks, seconds)
    client.wait_for_workers(4, timeout=300)
    outcomes = OnCluster(client).outcomes(work, 100, tasks)
    return [next(outcomes) for _ in range(4)], outcomes
