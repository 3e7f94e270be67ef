"""``--cluster mpi``: the whole cluster is one MPI job, by dask-mpi.

``mpirun -n 6 python -m pipelines.svm_grid --cluster mpi`` starts the same program
six times. Rank 0 becomes the scheduler, rank 1 runs the program, the others are
workers. MPI broadcasts the certificate of the run, so that its key touches no disk.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cluster_setup import security
from cluster_setup.errors import ClusterError
from cluster_setup.installation import install_line
from cluster_setup.on_this_machine.devices import VISIBLE, gpu_lack, reasons_in_words, visible_gpus
from cluster_setup.options import ClusterOptions
from cluster_setup.profiles import load_profile
from cluster_setup.profiles.values import path_here
from cluster_setup.settings import LOOPBACK, NO_LOGS, dask_settings, scheduler_dashboard

if TYPE_CHECKING:
    from distributed import Client

SCHEDULER, PROGRAM = 0, 1
SECONDS_TO_ANSWER = 60
_parts: list[str] = []  # what this process has done, as MPI can start and end only once


def take_part(options: ClusterOptions) -> None:
    """Return on the rank that runs the program; on the others serve, then exit.

    To be called before the program does anything that is to happen only once.

    Raises
    ------
    ClusterError
        dask-mpi is missing, or the program was not started by MPI on three ranks or more.
    """
    if _parts:
        return
    import dask
    import distributed  # noqa: F401  its defaults must be in the configuration before ours

    try:
        import dask_mpi
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ClusterError(
            "--cluster mpi needs dask-mpi and an MPI library, which are not installed here "
            f"({' '.join(str(error).split())}); run {install_line('hpc')}"
        ) from None
    ranks = MPI.COMM_WORLD
    if ranks.size < 3:
        raise ClusterError(
            "--cluster mpi must be started on at least 3 ranks (scheduler, program, workers), "
            f"got {ranks.size}; start it with mpirun -n 4 python -m ... or srun"
        )
    profile = load_profile(options.profile) if options.profile else None
    try:  # filled in here, as a rank runs on its node
        local_directory = (
            profile and profile.local_directory and str(path_here(profile.local_directory))
        )
    except ValueError as error:
        raise ClusterError(f"--profile {options.profile}: local_directory {error}") from None
    # Set on every rank, as the scheduler and the workers each read their own configuration.
    dask.config.set(dask_settings(options.dashboard))
    _hand_round_the_certificate(ranks, options)
    _take_one_gpu(ranks, options)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        runs_the_program = dask_mpi.initialize(
            interface=profile.interface if profile else None,
            local_directory=local_directory,
            protocol="tls://" if options.tls else "tcp://",
            **(scheduler_dashboard(options.dashboard) if ranks.rank == SCHEDULER else {}),
            # A nanny restarts a worker that dies within its rank.
            worker_class="distributed.Nanny",
            memory_limit=profile.memory if profile else "auto",
            worker_options={
                "dashboard_address": f"{LOOPBACK}:0",
                "silence_logs": NO_LOGS,
                "death_timeout": profile.death_timeout if profile else SECONDS_TO_ANSWER,
            },
            # dask-mpi itself would end the other ranks over a new connection, which it opens while
            # Python ends, and may wait for ever.
            exit=False,
        )
    except Exception:  # the other ranks would wait for this one for ever
        traceback.print_exc()
        sys.stderr.flush()
        ranks.Abort(1)
    if not runs_the_program:
        sys.exit()
    _parts.append("joined")
    atexit.register(_leave_the_others)


def _leave_the_others() -> None:
    """End the other ranks if the program ended before it opened the cluster; else wait for them.

    mpi4py would wait in Python's teardown, which commands skip.
    """
    from mpi4py import MPI

    if "left" not in _parts:
        sys.stdout.flush()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(2)
    MPI.Finalize()


def _hand_round_the_certificate(ranks: Any, options: ClusterOptions) -> None:
    """Make a certificate on the scheduler's rank, broadcast it, and configure Dask with it."""
    import dask
    from distributed import Security

    if not options.tls:
        if ranks.rank == PROGRAM:
            options.echo(security.NO_TLS)
        return
    credentials = Security.temporary() if ranks.rank == SCHEDULER else None
    pair = (credentials.tls_ca_file, credentials.tls_scheduler_key) if credentials else None
    certificate, key = ranks.bcast(pair, root=SCHEDULER)
    setting = "distributed.comm.tls"
    dask.config.set(
        {"distributed.comm.require-encryption": True, f"{setting}.ca-file": certificate}
    )
    for role in ("scheduler", "worker", "client"):
        dask.config.set({f"{setting}.{role}.cert": certificate, f"{setting}.{role}.key": key})


def _take_one_gpu(ranks: Any, options: ClusterOptions) -> None:
    """Give each worker of a node a usable GPU of its own if each of them sees several."""
    from mpi4py import MPI

    is_worker = ranks.rank > PROGRAM
    node = ranks.Split_type(MPI.COMM_TYPE_SHARED).Split(is_worker)
    if not is_worker:
        return
    gpus = visible_gpus()
    left_out = {gpu: lack.why for gpu in gpus if (lack := gpu_lack(gpu))}
    usable = [gpu for gpu in gpus if gpu not in left_out] or gpus
    if len(gpus) > 1:
        os.environ[VISIBLE] = usable[node.rank % len(usable)].uuid
    if len(usable) < len(gpus) and node.rank == 0:
        options.echo(f"left out   {reasons_in_words(left_out)}")


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client]:
    """Open a client of the cluster of the other ranks, which end with it."""
    from distributed import Client
    from mpi4py import MPI

    take_part(options)
    n_workers = MPI.COMM_WORLD.size - 2
    with Client(timeout=SECONDS_TO_ANSWER, set_as_default=False) as client:
        try:
            # Before anything can fail: a nanny told to end while its worker starts misses that.
            client.wait_for_workers(n_workers, timeout=SECONDS_TO_ANSWER)
            if options.workers not in (None, n_workers):
                raise ClusterError(
                    f"--workers must be {n_workers} here, the ranks of MPI less two, "
                    f"got {options.workers}; leave it out, or start on "
                    f"{(options.workers or 0) + 2} ranks"
                )
            yield client
        finally:
            client.shutdown()
            _parts.append("left")
