"""A site's profile: the settings of its queue, as one small YAML file.

Those that are shipped lie here, the user's own in ``~/.config/pleasingly/``.
"""

from __future__ import annotations

import os
import re
import reprlib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    ValidationError,
)

from cluster_setup.errors import ClusterError
from cluster_setup.options import MOST_WORKERS, rmm_pool_size
from cluster_setup.profiles.values import (
    Command,
    Directive,
    LineOfShell,
    Name,
    OnNode,
    SharedFolder,
    Size,
    Walltime,
    Word,
    path_here,
)
from cluster_setup.yaml_files import read_yaml

SHIPPED = Path(__file__).parent
MOST = 10**6  # cores, or seconds of waiting


class Profile(BaseModel):
    """The settings of a site's queue for one job, which is one worker with one GPU or none.

    Variables in names and in ``shared_folder`` are filled in when the profile is read, those in
    ``local_directory`` and ``python`` on the node.

    Attributes
    ----------
    queue : str
        ``slurm``, ``pbs`` or ``sge``.
    partition, cpu_partition : str, optional
        Partition, or queue, of jobs with a GPU and without (default: the same).
    account : str, optional
        The account that is charged.
    gres : str, optional
        One GPU in the queue's words: ``gpu:1`` (Slurm's ``--gres``), ``ngpus=1`` (added to
        PBS's ``select``), ``gpu=1`` (Grid Engine's ``-l``). None: the site has no GPUs.
    walltime : str
        Of a job, as Slurm writes it: ``HH:MM:SS``, or after days ``D-HH[:MM[:SS]]``. It may be
        shorter than the run.
    cores, memory : int, bytes
        Of one job; ``16G``, ``16GB`` and ``16 GiB`` are 16 x 2^30 bytes.
    workers : int
        Jobs to ask for when the command line does not say.
    rmm_pool : str, optional
        As in ``ClusterOptions``, for jobs with a GPU.
    interface : str, optional
        Network interface that reaches the other nodes, such as ``ib0``.
    prologue : tuple of str
        Shell lines before the worker starts: ``module load ...``.
    python : str or tuple of str, optional
        The path of Python on a node, or the words of the command that starts it; by default the
        path of the Python that submits the job.
    directives, skip_directives : tuple of str
        Further header lines, with or without ``#SBATCH``; and texts, such that header lines
        which contain one are left out.
    shared_folder : str
        A folder that all nodes see and only the user can enter.
    local_directory : str, optional
        Fast disk of a node.
    death_timeout : int
        Seconds after which a worker that finds no scheduler ends.
    check_every : float
        Seconds between two looks at the queue.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    queue: Literal["slurm", "pbs", "sge"]
    partition: Name | None = None
    cpu_partition: Name | None = None
    account: Name | None = None
    gres: Name | None = None
    walltime: Walltime = "01:00:00"
    cores: Annotated[int, Field(strict=True, ge=1, le=MOST)] = 4
    memory: Size = ByteSize(16 * 2**30)
    workers: Annotated[int, Field(strict=True, ge=1, le=MOST_WORKERS)] = 4
    rmm_pool: Annotated[str, BeforeValidator(rmm_pool_size)] | None = None
    interface: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:@-]+$")] | None = None
    prologue: tuple[LineOfShell, ...] = ()
    python: Command | None = None
    directives: tuple[Directive, ...] = ()
    skip_directives: tuple[Word, ...] = ()
    shared_folder: SharedFolder = "~/.cache/pleasingly"
    local_directory: OnNode | None = None
    death_timeout: Annotated[int, Field(strict=True, ge=1, le=MOST)] = 120
    check_every: Annotated[float, Field(strict=True, gt=0, le=MOST)] = 15

    @property
    def mebibytes(self) -> int:
        """``memory`` in 2^20 bytes, rounded up."""
        return -(-self.memory // 2**20)

    def partition_for(self, gpu: bool) -> str | None:
        """The partition, or queue, of jobs with a GPU or without."""
        return (None if gpu else self.cpu_partition) or self.partition

    @property
    def shared_path(self) -> Path:
        """``shared_folder``, absolute, with ``~`` and variables filled in."""
        return path_here(self.shared_folder)


def user_folder() -> Path:
    """The folder of the user's own profiles."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "pleasingly"


def load_profile(name: str | None, queue: str | None = None) -> Profile:
    """Read the profile with a name, or from a file.

    Parameters
    ----------
    name : str, optional
        A name (the user's own profiles take precedence) or the path of a ``.yaml`` file;
        ``generic-QUEUE`` by default.
    queue : str, optional
        The queue that the profile must be for; by default any.

    Raises
    ------
    ClusterError
        There is no such profile, it is for another queue, or a key is unknown or has an invalid
        value.
    """
    name = name or f"generic-{queue}"
    try:
        profile = Profile.model_validate(_read(name, earlier_paths=()))
    except ValidationError as error:
        first = error.errors()[0]
        key, message = first["loc"][0], first["msg"].removeprefix("Value error, ")
        rule, *way_out = message.split("; ", 1)
        rule = re.sub("^(Input|String) should", "must", rule)
        rule = rule.replace("Field required", "is required")
        if first["type"] == "string_type" and isinstance(first["input"], int | float):
            way_out = ["write it in quotes"]
        if first["type"] == "extra_forbidden":
            rule = f"is not a key; they are {', '.join(['base', *Profile.model_fields])}"
        words = [f"--profile {name}: {key} {rule}, got {reprlib.repr(first['input'])}", *way_out]
        raise ClusterError("; ".join(words)) from None
    if queue is not None and profile.queue != queue:
        raise ClusterError(
            f"--profile {name} is for --cluster {profile.queue}, got --cluster {queue}; "
            "change one of them"
        )
    return profile


def _read(name: str, earlier_paths: tuple[str, ...]) -> dict[str, Any]:
    path = _path(name)
    if str(path) in earlier_paths:
        raise ClusterError(f"--profile {name} must not be its own base; change base in {path}")
    try:
        values = read_yaml(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"--profile {path} cannot be read: {error}") from None
    except ValueError as error:
        raise ClusterError(f"--profile {path} is not valid YAML ({error})") from None
    if not isinstance(values, dict):
        raise ClusterError(f"--profile {path} must hold lines of 'key: value', it does not")
    base = values.pop("base", None)
    if base is not None and not isinstance(base, str):
        raise ClusterError(
            f"--profile {path}: base must be the name of a profile, got {reprlib.repr(base)}"
        )
    return values if base is None else _read(base, (*earlier_paths, str(path))) | values


def _path(name: str) -> Path:
    if name.endswith((".yaml", ".yml")) or os.sep in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise ClusterError(f"--profile must be a file that exists, got {name}")
        return path
    profiles = {
        path.stem: path for folder in (SHIPPED, user_folder()) for path in folder.glob("*.yaml")
    }
    if name in profiles:
        return profiles[name]
    close_names = get_close_matches(name, profiles, n=1)
    way_out = (
        f"did you mean {close_names[0]}?"
        if close_names
        else f"or write {user_folder()}/{name}.yaml"
    )
    raise ClusterError(
        f"--profile must be a file or one of {', '.join(sorted(profiles))}, got {name!r}; {way_out}"
    )
