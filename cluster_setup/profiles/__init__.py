"""A site's profile: the settings of its queue, as one small YAML file.

Shipped ones lie here, a user's own in ``~/.config/pleasingly/``.
"""

from __future__ import annotations

import dataclasses
import os
import re
import reprlib
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cluster_setup.errors import ClusterError
from cluster_setup.options import MOST_WORKERS, QUEUES

SHIPPED = Path(__file__).parent
MOST = 10**6  # of cores, and of seconds that are waited for
WALLTIME = re.compile(r"(?=.*[1-9])(\d{1,4}-)?\d{1,5}:[0-5]?\d:[0-5]?\d")


@dataclass(frozen=True)
class Profile:
    """Settings of a site's queue for one job, which is one worker on one GPU.

    Attributes
    ----------
    queue : str
        ``slurm``, ``pbs`` or ``sge``.
    partition, cpu_partition : str, optional
        Partition, or queue, of jobs with a GPU and without (default: the same).
    account : str, optional
        Who pays.
    gres : str, optional
        One GPU in the queue's words: ``gpu:1`` (Slurm's ``--gres``), ``ngpus=1`` (added to
        PBS's ``select``), ``gpu=1`` (Grid Engine's ``-l``). None: the site has no GPUs.
    walltime : str
        Hours, minutes and seconds of a job, ``[D-]HH:MM:SS``. It may be shorter than the run.
    cores, memory : int, str
        Of one job.
    workers : int
        Jobs to ask for when the command line does not say.
    interface : str, optional
        Network interface that reaches the other nodes, such as ``ib0``.
    prologue : tuple of str
        Shell lines before the worker starts: ``module load ...``.
    python : str, optional
        What starts Python on a node; by default the path of the one that asks.
    directives, skip_directives : tuple of str
        More header lines, without ``#SBATCH``; header lines that contain these are left out.
    shared_folder : str
        A folder that all nodes see and only the user can enter.
    local_directory : str, optional
        Fast disk of a node.
    death_timeout : int
        Seconds after which a worker that finds no scheduler ends.
    check_every : float
        Seconds between two looks at the queue.
    """

    queue: str
    partition: str | None = None
    cpu_partition: str | None = None
    account: str | None = None
    gres: str | None = None
    walltime: str = "01:00:00"
    cores: int = 4
    memory: str = "16 GiB"
    workers: int = 4
    interface: str | None = None
    prologue: tuple[str, ...] = ()
    python: str | None = None
    directives: tuple[str, ...] = ()
    skip_directives: tuple[str, ...] = ()
    shared_folder: str = "~/.cache/pleasingly"
    local_directory: str | None = None
    death_timeout: int = 120
    check_every: float = 15
    name: str = field(default="", metadata={"key": False})

    @property
    def walltime_seconds(self) -> int:
        """Seconds a job may last."""
        days, _, clock = self.walltime.rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":"))
        return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds

    def partition_for(self, gpu: bool) -> str | None:
        """Return the partition, or queue, of jobs with a GPU or without."""
        return (None if gpu else self.cpu_partition) or self.partition

    @property
    def shared_path(self) -> Path:
        """``shared_folder`` with ``~`` and variables filled in."""
        return Path(os.path.expandvars(self.shared_folder)).expanduser()


KEYS = {f.name: str(f.type) for f in dataclasses.fields(Profile) if f.metadata.get("key", True)}


def user_folder() -> Path:
    """Return the folder of a user's own profiles."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "pleasingly"


def known_profiles() -> list[str]:
    """Return names of the profiles that ``--profile NAME`` finds."""
    return sorted(
        {file.stem for place in (user_folder(), SHIPPED) for file in place.glob("*.yaml")}
    )


def load_profile(name: str | None, queue: str | None = None) -> Profile:
    """Read the profile of a name or a file.

    Parameters
    ----------
    name : str, optional
        A name (the user's own profile goes first) or the path of a ``.yaml`` file;
        ``generic-QUEUE`` by default.
    queue : str, optional
        What the profile must be for.

    Raises
    ------
    ClusterError
        There is no such profile, or a key of it is unknown or has a wrong value.
    """
    name = name or f"generic-{queue}"
    values = _read(name, seen=())
    profile = _checked(values, name)
    if queue is not None and profile.queue != queue:
        raise ClusterError(
            f"--profile {name} is for --cluster {profile.queue}, got --cluster {queue}; "
            "change one of them"
        )
    return profile


def _read(name: str, seen: tuple[str, ...]) -> dict[str, Any]:
    import yaml

    path = _path(name)
    if str(path) in seen:
        raise ClusterError(f"--profile {name} must not be its own base; change base in {path}")
    try:
        values = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"--profile {path} cannot be read: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place = getattr(error, "problem_mark", None)
        why = str(error).partition("\n")[0]
        where = f" at line {place.line + 1}" if place else f" ({why})"
        raise ClusterError(f"--profile {path} is not valid YAML{where}") from None
    if not isinstance(values, dict):
        raise ClusterError(f"--profile {path} must hold lines of 'key: value', it does not")
    valid = ["base", *KEYS]
    for key in values:
        if key not in valid:
            close = get_close_matches(str(key), valid, n=1)
            way_out = f"; did you mean {close[0]}?" if close else ""
            raise ClusterError(
                f"--profile {path}: {key!r} is not a key; they are {', '.join(valid)}{way_out}"
            )
    base = values.pop("base", None)
    if base is not None and not _is_one_line(base):
        raise ClusterError(
            f"--profile {path}: base must be the name of a profile, got {reprlib.repr(base)}"
        )
    return values if base is None else _read(base, (*seen, str(path))) | values


def _path(name: str) -> Path:
    if name.endswith((".yaml", ".yml")) or os.sep in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise ClusterError(f"--profile must be a file that exists, got {name}")
        return path
    for place in (user_folder(), SHIPPED):
        if (place / f"{name}.yaml").is_file():
            return place / f"{name}.yaml"
    known = known_profiles()
    close = get_close_matches(name, known, n=1)
    way_out = f"did you mean {close[0]}?" if close else f"or write {user_folder()}/{name}.yaml"
    raise ClusterError(
        f"--profile must be a file or one of {', '.join(known)}, got {name!r}; {way_out}"
    )


def _checked(values: dict[str, Any], name: str) -> Profile:
    ready: dict[str, Any] = {}
    for key, value in values.items():
        if key == "walltime" and type(value) is int:  # YAML reads 12:00:00 as a number to base 60
            hours, rest = divmod(value, 3600)
            value = f"{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
        rule = _broken_rule(key, KEYS[key], value)
        if rule:
            raise ClusterError(f"--profile {name}: {key} must be {rule}, got {reprlib.repr(value)}")
        ready[key] = tuple(value) if isinstance(value, list) else value
    if "queue" not in ready:
        raise ClusterError(f"--profile {name}: queue must be one of {', '.join(QUEUES)}, got none")
    return Profile(**ready, name=name)


def _is_one_line(value: Any) -> bool:
    """Return whether a value is a single line of text, or not text at all."""
    return isinstance(value, str) and value.replace("\t", " ").isprintable()


def _broken_rule(key: str, kind: str, value: Any) -> str | None:
    """Return the rule that a value breaks, or None.

    Parameters
    ----------
    key : str
    kind : str
        The type of the profile's attribute, as it is written there.
    value : what YAML gave
    """
    if value is None and "None" in kind:
        return None
    if kind.startswith("tuple"):
        lines = isinstance(value, (list, tuple)) and all(map(_is_one_line, value))
        return None if lines else "a list of lines of text"
    if kind in ("int", "float"):
        most = MOST_WORKERS if key == "workers" else MOST
        number = isinstance(value, (int, float) if kind == "float" else int)
        good = number and not isinstance(value, bool) and 0 < value <= most
        what = "a number above 0, at most" if kind == "float" else "a whole number from 1 to"
        return None if good else f"{what} {most}"
    if not _is_one_line(value) or not value:
        return "one line of text"
    if key == "queue" and value not in QUEUES:
        return f"one of {', '.join(QUEUES)}"
    if key == "walltime" and not WALLTIME.fullmatch(value):
        return "HH:MM:SS or D-HH:MM:SS"
    if key == "shared_folder":
        try:
            Path(value).expanduser()
        except RuntimeError:
            return "a folder, with ~USER of a user who is known here"
    if key == "memory":
        from dask.utils import parse_bytes

        try:
            return None if 2**20 <= parse_bytes(value) <= 2**50 else "from 1 MiB to 1 PiB"
        except (ValueError, OverflowError):
            return "a size such as 32 GiB"
    return None
