"""What all queues share: one job runs one worker with one GPU or none.

A job can end at any time: by its walltime, a node that fails, preemption, ``scancel``.
dask-jobqueue does not submit another. A job can also end before its worker registers, and so will
all jobs after it if, say, a module is missing. The watchdog here notices both.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_setup import security
from cluster_setup.errors import ClusterError
from cluster_setup.options import ClusterOptions
from cluster_setup.profiles import Profile, load_profile
from cluster_setup.queue.jobs import JobState, Queue, cluster_class, job_arguments, wants_gpu
from cluster_setup.settings import NO_LOGS, open_protocol, scheduler_dashboard
from cluster_setup.shutdown import close_or_kill

if TYPE_CHECKING:
    from distributed import Client

# In a preemptible partition workers are often killed, and seldom because of their task.
ALLOWED_FAILURES = 10
SECONDS_BETWEEN_LINES = 60
DEATHS_IN_A_ROW = 3  # of jobs whose worker never registered; then no more are submitted
REFUSALS_IN_A_ROW = 20  # to take a job, while the run has had workers; then no more are submitted
LINES_OF_LOG = 3
NO_LOG = (
    "left no log; shared_folder in the profile must be a folder that its node can write, or it was "
    "cancelled before it began"
)


@contextmanager
def open_client(queue: Queue, options: ClusterOptions) -> Iterator[Client]:
    """Open a client whose workers are jobs of ``queue``; yield it when the first has registered.

    The others join as the queue starts them; all jobs are cancelled at the end.

    Raises
    ------
    ClusterError
        The profile is invalid, the queue's commands are not here, it refuses the job, or jobs
        end before their worker registers.
    """
    import dask
    from distributed import Client

    profile = load_profile(options.profile, queue.kind)
    gpu = wants_gpu(options, profile)
    if shutil.which(queue.submit) is None:
        raise ClusterError(
            f"--cluster {queue.kind} needs the command {queue.submit}, which is not here; "
            "start on a login node, or use --cluster local"
        )
    if not options.tls:
        options.echo(security.NO_TLS)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": ALLOWED_FAILURES}),
        security.private_folder(profile.shared_path) as folder,
        ExitStack() as ending,
    ):
        keys = security.write_keys(folder) if options.tls else None
        queue_cluster_class = cluster_class(queue)
        try:
            cluster = queue_cluster_class(
                security=keys,
                protocol="tls://" if keys else open_protocol(),
                scheduler_options=scheduler_dashboard(options.dashboard),
                silence_logs=NO_LOGS,
                **job_arguments(queue, profile, gpu, folder, options.rmm_pool),
            )
        except (RuntimeError, ValueError) as error:  # no such interface, no free port
            reason = " ".join(str(error.__cause__ or error).split())
            raise ClusterError(
                f"--cluster {queue.kind} cannot start its scheduler: {reason}; "
                "interface in the profile must be one of this machine and of the nodes"
            ) from None
        ending.callback(close_or_kill, cluster)
        watchdog = Watchdog(cluster, queue, options, profile, folder)
        cluster.watchdog = watchdog  # workers.forecast_workers looks there
        # At the end: all jobs with one command, before anything that may take time.
        ending.callback(lambda: queue.cancel_all(watchdog.jobs))
        ending.callback(watchdog.stop)
        client = ending.enter_context(Client(cluster, set_as_default=False))
        while not cluster.scheduler_info["workers"]:
            if watchdog.given_up:
                raise ClusterError(watchdog.given_up)
            time.sleep(0.1)
        yield client


class Watchdog:
    """Submits jobs, checks the queue at intervals, and replaces jobs that have ended.

    Parameters
    ----------
    cluster : dask_jobqueue.JobQueueCluster
        Of ``cluster_class``.
    queue : Queue
    options : ClusterOptions
    profile : Profile
    logs : Path
        The folder where jobs write their logs.

    Attributes
    ----------
    given_up : str or None
        Why no more jobs are submitted.
    n_wanted : int
        Number of workers that the run may count on, sooner or later.
    """

    def __init__(
        self, cluster: Any, queue: Queue, options: ClusterOptions, profile: Profile, logs: Path
    ) -> None:
        from tornado.ioloop import PeriodicCallback

        self.given_up: str | None = None
        self._cluster, self._queue, self._echo = cluster, queue, options.echo
        self._profile, self._logs = profile, logs
        self._gpu = wants_gpu(options, profile)
        self._waiting: dict[str, JobState] = {}
        self._previously_waiting: dict[str, JobState] = {}  # at the check before
        self._last_line, self._last_line_at = "", time.monotonic()
        self._deaths = self._refusals = self._n_registered = 0
        self._stopped = False
        self._adapts = options.adaptive is not None  # Dask decides how many jobs there are
        if options.adaptive:
            fewest, self.n_wanted = options.adaptive
            cluster.adapt(minimum_jobs=fewest, maximum_jobs=self.n_wanted)
        else:
            self.n_wanted = options.workers or profile.workers
            cluster.scale(self.n_wanted)
        self._timer = PeriodicCallback(self.check, profile.check_every * 1000)
        cluster.loop.add_callback(self._timer.start)
        cluster.loop.add_callback(self.check)

    @property
    def coming(self) -> bool:
        """Whether a job, queued or to come, may still bring a worker."""
        return not self._stopped and self.given_up is None

    @property
    def jobs(self) -> list[str]:
        """The ids of the jobs that may be in the queue."""
        return [job.job_id for job in list(self._cluster.workers.values()) if job.job_id]

    def stop(self) -> None:
        """Submit no more jobs."""
        self._stopped = True
        self._cluster.loop.add_callback(self._timer.stop)

    def waiting(self) -> str:
        """How many jobs wait in the queue and why, in words; empty if none does."""
        if not self._waiting:
            return ""
        reasons = ", ".join(sorted({state.reason for state in self._waiting.values()} - {"None"}))
        job_count = f"{len(self._waiting)} job" + "s" * (len(self._waiting) != 1)
        return f"{job_count} waiting" + (f" ({reasons})" if reasons else "")

    def obstacle(self) -> str:
        """Why jobs will not start by themselves, and what to change; empty if they may start."""
        # A job must be stuck in two checks in a row: a queue may correct its first reason.
        stuck = {
            job: state.obstacle
            for job, state in sorted(self._waiting.items())
            if state.obstacle and state == self._previously_waiting.get(job)
        }
        obstacle = next(iter(stuck.values()), None)
        if obstacle is None:
            return ""
        jobs = [job for job, job_obstacle in stuck.items() if job_obstacle == obstacle]
        verb = "will not" if obstacle.is_certain else "may not"
        pronoun = "itself" if len(jobs) == 1 else "themselves"
        way_out = obstacle.way_out(jobs, self._profile, self._gpu)
        return f"{len(jobs)} {verb} start by {pronoun}: {obstacle.why}; {way_out}"

    async def check(self) -> None:
        """Drop jobs that have ended, count those that never registered, submit what is missing."""
        if self._stopped:
            return
        cluster, kind = self._cluster, self._queue.kind
        jobs = dict(cluster.workers)
        states = await self._queue.states([job.job_id for job in jobs.values() if job.job_id])
        if states is None or self._stopped:  # the queue did not answer
            return
        self._previously_waiting = self._waiting
        self._waiting = {job: state for job, state in states.items() if state.waits}
        self._tell()
        if len(cluster.registered) > self._n_registered:
            self._n_registered, self._deaths = len(cluster.registered), 0
        for name, job in jobs.items():
            if job.refused is None and (job.job_id in states or name in self._present()):
                self._refusals = 0 if job.job_id else self._refusals
                continue
            cluster.workers.pop(name, None)
            cluster.worker_spec.pop(name, None)
            if job.refused is not None:
                self._refusals += 1
                if not cluster.registered or self._refusals >= REFUSALS_IN_A_ROW:
                    self._give_up(
                        f"--cluster {kind}: {self._queue.submit} rejected the job: {job.refused}; "
                        "correct the profile (--dry-run shows the job script)"
                    )
            elif name not in cluster.registered:
                self._deaths += 1
                if self._deaths >= DEATHS_IN_A_ROW and self.given_up is None:
                    log = kept_log(self._logs, str(job.job_id))
                    self._give_up(
                        f"--cluster {kind}: {self._deaths} jobs in a row ended before their worker "
                        f"connected; the last one, {job.job_id}, "
                        + (f"printed: {tail_of(log)}; its log is {log}" if log else NO_LOG)
                    )
        if self.given_up is None and not self._adapts:
            cluster.scale(self.n_wanted)

    def _tell(self) -> None:
        """Print which jobs wait and why, if there is no worker, or if a job will not start."""
        waiting, obstacle = self.waiting(), self.obstacle()
        is_deserted = not self._present()
        line = f"{waiting}; {obstacle}" if obstacle else waiting
        line = line if is_deserted or obstacle else ""
        is_repeat_due = (
            is_deserted and time.monotonic() - self._last_line_at > SECONDS_BETWEEN_LINES
        )
        if line and (line != self._last_line or is_repeat_due):
            self._echo(f"queue      {line}")
            self._last_line_at = time.monotonic()
        self._last_line = line

    def _present(self) -> set[str]:
        return {worker["name"] for worker in self._cluster.scheduler_info["workers"].values()}

    def _give_up(self, reason: str) -> None:
        if self.given_up is None:
            self.given_up = reason
            if self._adapts:  # it would submit jobs for ever
                self._cluster._adaptive.stop()
            if self._present():
                self._echo(f"warning    {reason}; the run goes on with the workers it has")


def kept_log(folder: Path, job: str) -> Path | None:
    """Move a job's log out of the run's private folder, which is removed; None without a log."""
    logs = sorted(folder.iterdir())
    log = next((log for log in logs if job in re.findall(r"\d+", log.name)), None)  # not 17 for 7
    if log is None:
        return None
    with suppress(OSError):  # another user's file may stand in its place
        log.chmod(0o600)
        return log.replace(folder.parent / f"job{job}.log")
    return log


def tail_of(log: Path) -> str:
    """The last lines of a job's log, on one line."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    full_lines = [" ".join(line.split()) for line in lines if line.strip()]
    return " | ".join(full_lines[-LINES_OF_LOG:]) or "nothing"
