"""Where benchmarks open workers: on this machine, and behind a real Slurm of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cluster_setup import open_cluster
from tests import slurm_on_one_machine
from tests.slurm_on_one_machine.configuration import CORES_PER_NODE, MEMORY_PER_NODE, NODES

if TYPE_CHECKING:
    from distributed import Client

LOCAL, SLURM = "local", "slurm"


def missing(place: str) -> str | None:
    """Why workers cannot be opened there; None where they can."""
    if place == LOCAL:
        return None
    if find_spec("dask_jobqueue") is None:
        return "dask-jobqueue is not installed; install the extra hpc"
    return slurm_on_one_machine.missing()


@contextmanager
def slurm() -> Iterator[Path]:
    """A Slurm on this machine, for this process and its children; the folder of its profiles."""
    # Slurm's own, open to its daemons; that of the profiles and keys is ours alone.
    home = Path(tempfile.mkdtemp(prefix="slurm-"))
    with tempfile.TemporaryDirectory(prefix="profiles-") as folder:
        settings = slurm_on_one_machine.environment(home)
        before = {key: os.environ.get(key) for key in settings}
        slurm_on_one_machine.up(home)
        os.environ.update(settings)
        try:
            yield Path(folder)
        finally:
            slurm_on_one_machine.down(home)
            for key, value in before.items():
                os.environ.pop(key)
                if value is not None:
                    os.environ[key] = value


def write_profile(folder: Path, nodes: int = len(NODES), a_node: int = CORES_PER_NODE) -> str:
    """A profile of that Slurm whose jobs fit so many to a node, on so many; its file's name."""
    import yaml

    others = [f"--exclude={','.join(NODES[nodes:])}"] if nodes < len(NODES) else []

    profile = {
        "queue": "slurm", "walltime": "01:00:00", "cores": 1, "interface": "lo",
        # In whole GiB, as Slurm is told.
        "memory": f"{MEMORY_PER_NODE // (1024 * a_node)} GiB",
        "shared_folder": str(folder / "shared"), "check_every": 2, "directives": others,
    }  # fmt: skip
    path = folder / f"{nodes}x{a_node}.yaml"
    path.write_text(yaml.safe_dump(profile))
    return str(path)


def formed(profile: str | None, nodes: int, a_node: int) -> str | None:
    """The same Slurm, with at most so many jobs on each of so many nodes."""
    return profile and write_profile(Path(profile).parent, nodes, a_node)


def nodes_of(client: Client) -> set[str]:
    """The nodes that workers are on, by their names; this machine alone has none."""
    return set(client.run(lambda: os.environ.get("SLURMD_NODENAME", "")).values())


@contextmanager
def everywhere(places: Sequence[str]) -> Iterator[dict[str, str | None]]:
    """The profile of each place, None for this machine, while they are open."""
    with ExitStack() as stack:
        yield {
            place: None if place == LOCAL else write_profile(stack.enter_context(slurm()))
            for place in places
        }


@contextmanager
def workers(place: str, n_workers: int, profile: str | None = None) -> Iterator[Client]:
    """A client of so many workers, when all of them are there."""
    with open_cluster(place, n_workers, profile=profile, dashboard="off") as client:
        client.wait_for_workers(n_workers, timeout=300)
        yield client
