"""A real Slurm on this machine, to try the program with and to test it.

One controller and four nodes of four cores and two make-believe GPUs each, all
on loopback: it schedules, cancels, times out and loses nodes as any Slurm
does. Cores, memory and GPUs are scheduled but not enforced.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from cluster_setup.errors import ClusterError
from tests.slurm_on_one_machine.configuration import GPUS_PER_NODE, NODES, gres_conf, slurm_conf

__all__ = ["FOLDER", "MISSING", "down", "environment", "missing", "up"]

# Short, because the path of a Unix socket has room for about a hundred letters.
FOLDER = Path("/run/slurm-on-one-machine")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
MISSING = "apt-get install --no-install-recommends slurm-wlm munge"
SECONDS_TO_START = 30
SECONDS_TO_STOP = 20
NULL_DEVICE = os.makedev(1, 3)  # what a make-believe GPU is: /dev/null under another name


def missing():
    """Why Slurm cannot be brought up here, with the way out; None when it can."""
    absent = [program for program in PROGRAMS if not _find(program)]
    if absent:
        return f"{absent[0]} is not installed here; run {MISSING}"
    if os.geteuid() != 0:
        return "only root may start Slurm's daemons and make its GPUs; use sudo"
    return None


def environment(folder=FOLDER):
    """The environment in which ``sbatch`` and the others speak to this Slurm."""
    return {"SLURM_CONF": str(folder / "slurm.conf")}


def up(folder=FOLDER):
    """Start munge, the controller and the nodes; return when all nodes are idle.

    Parameters
    ----------
    folder : Path
        Keeps the configuration, logs and process ids; made here.

    Raises
    ------
    ClusterError
        Something is missing, runs already, or did not start.
    """
    reason = missing()
    if reason:
        raise ClusterError(f"slurm_on_one_machine cannot start: {reason}")
    if _running(folder):
        raise ClusterError(
            f"slurm_on_one_machine runs already in {folder}; "
            "end it with python -m tests.slurm_on_one_machine down"
        )
    shutil.rmtree(folder, ignore_errors=True)
    _write_configuration(folder)
    try:
        _start(
            folder,
            "munged",
            [
                f"--key-file={folder}/munge.key",
                f"--socket={folder}/munge.socket",
                f"--pid-file={folder}/munged.pid",
                f"--log-file={folder}/munged.log",
                f"--seed-file={folder}/munge.seed",
            ],
        )
        _start(folder, "slurmctld", ["-c"])
        for node in NODES:
            _start(folder, "slurmd", ["-N", node])
        _wait_until_idle(folder)
    except BaseException:
        down(folder)
        raise


def down(folder=FOLDER):
    """Stop what ``up`` started in ``folder``, jobs included, and remove the folder.

    Returns when all of it has ended.
    """
    pids = _running(folder)
    if any(name == "slurmctld" for name in pids.values()):
        with suppress(subprocess.SubprocessError, OSError):
            _cancel_all_jobs(folder)
    # What they have started, too: the controller's helper outlives it for a while.
    family = {pid: {pid, *_children(pid)} for pid in pids}
    # The controller first: the nodes then have nobody to take leave of, and stop at once.
    for name in ("slurmctld", "slurmd", "munged"):
        daemons = [pid for pid, program in pids.items() if program == name]
        _stop(daemons, set().union(*(family[pid] for pid in daemons)))
    shutil.rmtree(folder, ignore_errors=True)


def _cancel_all_jobs(folder):
    """Jobs outlive a controller that ends while it cancels them."""
    _ask(folder, "scancel", "--full", "--user", str(os.geteuid()))
    until = time.monotonic() + SECONDS_TO_STOP
    while _ask(folder, "squeue", "--noheader").stdout.strip() and time.monotonic() < until:
        time.sleep(0.1)


def _children(pid):
    import psutil

    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


def _write_configuration(folder):
    folder.mkdir(parents=True, mode=0o755)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    for node in NODES:
        (folder / node).mkdir()
        for number in range(GPUS_PER_NODE):
            os.mknod(folder / node / f"nvidia{number}", 0o666 | stat.S_IFCHR, NULL_DEVICE)
    ports = _free_ports(1 + len(NODES))
    (folder / "slurm.conf").write_text(slurm_conf(folder, ports))
    (folder / "gres.conf").write_text(gres_conf(folder))


def _free_ports(count):
    with ExitStack() as opened:
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        return [opened.enter_context(server).getsockname()[1] for server in servers]


def _start(folder, program, arguments):
    path = _find(program)
    assert path is not None
    done = _ask(folder, path, *arguments)
    if done.returncode:
        complaint = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise ClusterError(f"slurm_on_one_machine: {program} did not start: {complaint}")


def _wait_until_idle(folder):
    until = time.monotonic() + SECONDS_TO_START
    while True:
        output = _ask(folder, "sinfo", "--noheader", "--Node", "--format=%T").stdout
        if output.split() == ["idle"] * len(NODES):
            return
        if time.monotonic() > until:
            states = ", ".join(output.split()) or "no answer"
            raise ClusterError(
                f"slurm_on_one_machine: the nodes are not idle after {SECONDS_TO_START} s "
                f"({states}); the logs are in {folder}"
            )
        time.sleep(0.1)


def _ask(folder, *command):
    return subprocess.run(
        command,
        env=os.environ | environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_START,
    )


def _running(folder):
    """Process id -> program, of those whose id is recorded in ``folder`` and that still run."""
    programs = {}
    for file in sorted(folder.glob("*.pid")):
        with suppress(ValueError, OSError):
            pid = int(file.read_text())
            program = file.stem.split("-")[0]
            if Path(f"/proc/{pid}/comm").read_text().strip() == program:
                programs[pid] = program
    return programs


def _stop(pids, family):
    """Ask ``pids`` to end; return when all of the family have, killed if need be."""
    for number, ask, limit in (
        (signal.SIGTERM, pids, SECONDS_TO_STOP),
        (signal.SIGKILL, family, 5),
    ):
        for pid in ask:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        until = time.monotonic() + limit
        while any(_alive(pid) for pid in family) and time.monotonic() < until:
            time.sleep(0.1)
        if not any(_alive(pid) for pid in family):
            return


def _alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def _find(program):
    # Daemons lie where a user's PATH may not reach.
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
