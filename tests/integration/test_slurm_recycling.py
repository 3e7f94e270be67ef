"""Processes of workers that are jobs of a real Slurm are replaced within their jobs."""

from __future__ import annotations

import os
import time
from collections import Counter

import numpy as np

from cluster_setup import open_cluster
from pipelines.run.recycling import Recycling
from pipelines.run.runners import OnCluster
from tests.run.test_runners import Number


def job_of_this_process(shared, task):
    time.sleep(0.1)
    return os.environ["SLURM_JOB_ID"], os.getpid(), float(shared[task.value])


def test_a_successor_works_in_the_job_of_its_predecessor(profile):
    tasks = [Number(value) for value in range(60)]
    with open_cluster("slurm", 2, profile=profile()) as client:
        runner = OnCluster(client, Recycling(n_tasks=8))
        outcomes = list(runner.outcomes(job_of_this_process, np.arange(100.0), tasks))
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert {entry.task.value: entry.result[2] for entry in outcomes} == dict(
        enumerate(np.arange(60.0))
    )
    assert runner.recycler.recycled
    places = {entry.result[:2] for entry in outcomes}
    assert max(Counter(job for job, _ in places).values()) > 1
