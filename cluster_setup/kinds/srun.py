"""``--cluster srun``: the scheduler here, the workers as one step of this Slurm allocation.

For a job that holds everything: docs/how-to/slurm.md has its script.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_setup import security
from cluster_setup.errors import ClusterError
from cluster_setup.options import ClusterOptions
from cluster_setup.profiles import Profile, load_profile
from cluster_setup.queue.jobs import wants_gpu, worker_flags
from cluster_setup.queue.watchdog import tail_of
from cluster_setup.settings import NO_LOGS, OF_WORKERS, as_environment, scheduler_dashboard
from cluster_setup.shutdown import close_or_kill

if TYPE_CHECKING:
    from distributed import Client, Security

SECONDS_TO_STOP = 20


class Step:
    """The step that runs the workers, with a watchdog's attributes."""

    def __init__(self, process: subprocess.Popen[bytes], n_wanted: int, log: Path) -> None:
        self._process, self._log = process, log
        self.n_wanted = n_wanted

    @property
    def coming(self) -> bool:
        """Return whether more workers may still arrive."""
        return self._process.poll() is None

    @property
    def given_up(self) -> str | None:
        """State why no more workers will arrive; empty while they may."""
        status = self._process.poll()
        if status is None:
            return None
        return (
            f"--cluster srun: the workers' step ended with status {status}, "
            f"it said: {tail_of(self._log)}"
        )

    def stop(self) -> None:
        """End the step and its workers."""
        for end in (self._process.terminate, self._process.kill):
            with suppress(subprocess.TimeoutExpired):
                end()
                self._process.wait(SECONDS_TO_STOP)
                return


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client]:
    """Open a client whose workers fill the allocation; given when the first has come.

    Raises
    ------
    ClusterError
        This process is in no allocation, or no worker comes up.
    """
    from distributed import Client, Scheduler, SpecCluster

    if "SLURM_JOB_ID" not in os.environ:
        raise ClusterError(
            "--cluster srun must run inside a Slurm allocation; "
            "submit a job script that begins it, or use --cluster slurm"
        )
    profile = load_profile(options.profile, "slurm")
    n_workers = options.workers or int(os.environ.get("SLURM_NTASKS", 1))
    if not options.tls:
        options.echo(security.NO_TLS)
    with (
        security.private_folder(profile.shared_path) as folder,
        security.in_folder(folder) if options.tls else nullcontext() as keys,
    ):
        scheduler = {
            "protocol": "tls://" if keys else "tcp://",
            "interface": profile.interface,
            "security": keys,
            **scheduler_dashboard(options.dashboard),
        }
        cluster: Any = SpecCluster(
            scheduler={"cls": Scheduler, "options": scheduler},
            security=keys,
            silence_logs=NO_LOGS,
        )
        try:
            cluster.watchdog = _start(cluster, profile, options, n_workers, folder, keys)
            try:
                with Client(cluster, set_as_default=False) as client:
                    while not cluster.scheduler_info["workers"]:
                        if cluster.watchdog.given_up:
                            raise ClusterError(cluster.watchdog.given_up)
                        time.sleep(0.1)
                    yield client
            finally:
                cluster.watchdog.stop()
        finally:
            close_or_kill(cluster)


def _start(
    cluster: Any,
    profile: Profile,
    options: ClusterOptions,
    n_workers: int,
    folder: Path,
    keys: Security | None,
) -> Step:
    gpu = wants_gpu(options, profile)
    command = step_command(profile, gpu, n_workers)
    command += [cluster.scheduler_address, *worker_flags(profile, gpu)]
    if keys:
        command += ["--protocol", "tls://", "--tls-ca-file", keys.tls_ca_file]
        command += ["--tls-cert", keys.tls_worker_cert, "--tls-key", keys.tls_worker_key]
    log = folder / "workers.log"
    with log.open("wb") as file:
        # In a session of its own: Ctrl-C is for this process, which ends the step in order.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
            env=os.environ | as_environment(OF_WORKERS),
        )  # fmt: skip
    return Step(process, n_workers, log)


def step_command(profile: Profile, gpu: bool, n_workers: int) -> list[str]:
    """Return ``srun`` and what starts one worker on each task, up to the scheduler's address."""
    command = ["srun", f"--ntasks={n_workers}", f"--cpus-per-task={profile.cores}",
               # One worker's end is not the end of the others.
               "--kill-on-bad-exit=0", "--no-kill"]  # fmt: skip
    if gpu:
        command.append(gpus_per_task(profile))
    python = shlex.split(profile.python) if profile.python else [sys.executable]
    return [*command, *python, "-m", *(["dask", "cuda"] if gpu else ["dask"]), "worker"]


def gpus_per_task(profile: Profile) -> str:
    """Return ``gpu:ampere_a100:1`` of ``--gres`` in the words of ``--gpus-per-task``."""
    return f"--gpus-per-task={(profile.gres or '').removeprefix('gpu:')}"
