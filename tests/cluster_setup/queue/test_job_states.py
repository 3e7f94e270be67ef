from __future__ import annotations

import asyncio
import dataclasses
import sys

import pytest

from cluster_setup.kinds import pbs, sge, slurm
from cluster_setup.kinds.slurm import QUEUE
from cluster_setup.profiles import Profile
from cluster_setup.queue import kept_log

SQUEUE = """\
7|RUNNING|None
8|PENDING|Resources
9|COMPLETING|None
10|PENDING|Priority
11|PENDING|JobHeldUser
"""
PBS = """\
Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
101.head          pleasingly       ada               00:01:02 R gpu
102.head          pleasingly       ada                      0 Q gpu
103.head          pleasingly       ada               00:00:01 C gpu
104.head          pleasingly       ada                      0 H gpu
"""
SGE = """\
job-ID  prior   name       user         state submit/start at     queue        slots ja-task-ID
-----------------------------------------------------------------------------------------------
    201 0.50500 pleasingly ada          r     11/20/2026 10:00:00 all.q@node1      8
    202 0.50500 pleasingly ada          qw    11/20/2026 10:00:00                  8
    203 0.50500 pleasingly ada          Eqw   11/20/2026 10:00:00                  8
    204 0.00000 pleasingly ada          hqw   11/20/2026 10:00:00                  8
"""


@pytest.mark.parametrize(
    ("queue", "output", "states"),
    [
        (
            slurm.QUEUE,
            SQUEUE,
            {
                "7": (False, ""),
                "8": (True, "Resources"),
                "10": (True, "Priority"),
                "11": (True, "JobHeldUser", "scontrol release"),
            },
        ),
        (
            pbs.QUEUE,
            PBS,
            {"101": (False, "state R"), "102": (True, "state Q"), "104": (True, "state H", "qrls")},
        ),
        (
            sge.QUEUE,
            SGE,
            {
                "201": (False, "state r"),
                "202": (True, "state qw"),
                "204": (True, "state hqw", "qrls"),
            },
        ),
    ],
)
def test_the_words_of_a_queue_are_understood(queue, output, states):
    parsed_states = {
        job: (state.waits, state.reason, *([state.obstacle.command] if state.obstacle else []))
        for job, state in queue.parse_states(output).items()
    }
    assert parsed_states == states


OF_A_SITE = Profile(
    queue="slurm", cores=64, memory=2**30, gres="gpu:1", cpu_partition="cpu", partition="gpu"
)


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        (
            "PartitionConfig",
            "cores (64), memory (1.0GiB), gres (gpu:1), walltime (01:00:00), partition (gpu) "
            "or directives",
        ),
        ("PartitionDown", "partition (gpu)"),
        ("PartitionTimeLimit", "walltime (01:00:00), partition (gpu) or directives"),
        ("AssocMaxWallDurationPerJobLimit", "walltime (01:00:00), partition (gpu) or directives"),
        ("AssocMaxCpuMinutesPerJobLimit", "walltime (01:00:00), cores (64) or gres (gpu:1)"),
        ("QOSMaxCpuPerJobLimit", "cores (64), account or directives"),
        ("QOSMaxMemoryPerNode", "memory (1.0GiB), account or directives"),
        ("QOSMinGRES", "gres (gpu:1), account or directives"),
        ("AssocGrpCPUMinutesLimit", "account or directives"),
        (
            "Job's account not known, so it can't use this partition (all allows ada)",
            "account, partition (gpu) or directives",
        ),
        ("DependencyNeverSatisfied", "directives"),
    ],
)
def test_jobs_that_will_not_start_by_themselves(reason, change):
    obstacle = slurm.QUEUE.parse_states(f"7|PENDING|{reason}\n")["7"].obstacle
    assert obstacle is not None
    assert obstacle.is_certain
    assert obstacle.way_out(["7"], OF_A_SITE, gpu=True) == f"change {change} in the profile"


@pytest.mark.parametrize(
    "reason",
    [
        "None",
        "Resources",
        "Priority",
        "BeginTime",
        "Licenses",
        "Dependency",
        "Reservation",
        "ReqNodeNotAvail, UnavailableNodes:node[1-4]",
        "ReqNodeNotAvail, Reserved for maintenance",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority",
    ],
)
def test_jobs_that_only_wait(reason):
    assert slurm.QUEUE.parse_states(f"7|PENDING|{reason}\n")["7"].obstacle is None


@pytest.mark.parametrize(
    "reason",
    [
        "AssocMaxJobsLimit",
        "QOSMaxCpuPerUserLimit",
        "AssocGrpCpuLimit",
        "AssocGrpCPURunMinutesLimit",
        "QOSMaxJobsPerUserLimit",
        "MaxMemoryPerAccount",
    ],
)
def test_a_limit_on_jobs_together_may_pass(reason):
    obstacle = slurm.QUEUE.parse_states(f"7|PENDING|{reason}\n")["7"].obstacle
    assert obstacle is not None
    assert not obstacle.is_certain


def test_the_way_out_for_a_job_without_a_gpu():
    (obstacle,) = (
        state.obstacle for state in slurm.QUEUE.parse_states("7|PENDING|BadConstraints").values()
    )
    assert obstacle is not None
    way_out = obstacle.way_out(["7"], OF_A_SITE, gpu=False)
    assert way_out == (
        "change cores (64), memory (1.0GiB), walltime (01:00:00), cpu_partition (cpu) or "
        "directives in the profile"
    )


def test_the_log_of_a_job_outlives_the_folder_of_its_run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("17.log", "7.log", "pleasingly.o70"):
        (folder / name).write_text(name)
    kept = kept_log(folder, "7")
    assert kept is not None
    assert (kept.parent, kept.read_text()) == (tmp_path, "7.log")
    assert kept.stat().st_mode & 0o077 == 0
    assert kept_log(folder, "8") is None


def saying(out, err, status):
    """A queue whose command says this."""
    program = (
        f"import sys; sys.stdout.write({out!r}); sys.stderr.write({err!r}); sys.exit({status})"
    )
    return dataclasses.replace(QUEUE, states_command=lambda jobs: [sys.executable, "-c", program])


def test_a_queue_that_does_not_answer_says_nothing():
    """Not that the jobs have ended."""
    down = saying("", "slurm_load_jobs error: Unable to contact slurm controller", 1)
    assert asyncio.run(down.states(["7"])) is None
    absent = dataclasses.replace(QUEUE, states_command=lambda jobs: ["no-such-command"])
    assert asyncio.run(absent.states(["7"])) is None
    assert asyncio.run(saying("gibberish", "", 0).states(["7"])) is None


def test_jobs_that_the_queue_has_forgotten_have_ended():
    queue = saying("", "slurm_load_jobs error: Invalid job id specified", 1)
    assert asyncio.run(queue.states(["7"])) == {}
