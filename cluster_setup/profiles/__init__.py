"""A site's profile: the settings of its queue, as one small YAML file.

Shipped ones lie here, a user's own in ``~/.config/pleasingly/``.
"""

from __future__ import annotations

import os
import re
import reprlib
import shlex
from contextlib import suppress
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from cluster_setup.errors import ClusterError
from cluster_setup.options import MOST_WORKERS, rmm_pool_size
from cluster_setup.yaml_files import read_yaml

SHIPPED = Path(__file__).parent
MOST = 10**6  # of cores, and of seconds that are waited for
SHORTEST = 30  # seconds of walltime: a worker leaves 10 to 15 before its end
WALLTIME = re.compile(r"\d{1,4}-\d{1,5}(:[0-5]?\d){0,2}|\d{1,5}(:[0-5]?\d){2}", re.ASCII)
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP])(?:i?B)?", re.ASCII | re.IGNORECASE)
NAME = r"([A-Za-z_]\w*)"
VARIABLE = re.compile(rf"\$(?:{NAME}|\{{{NAME}(?::-([^~${{}}`'\"\\]*))?\}})", re.ASCII)
DIRECTIVES = {"slurm": "#SBATCH", "pbs": "#PBS", "sge": "#$"}  # what their lines begin with


def _one_line(text: str) -> str:
    if not text.replace("\t", " ").isprintable():
        raise ValueError("must be one line of text")
    return text


def _without_shell(text: str) -> str:
    if re.search(r"\$[({]|`", VARIABLE.sub("", text)):
        raise ValueError(
            "must hold no shell but $NAME, ${NAME} and ${NAME:-DEFAULT}; write what it stands for"
        )
    return text


def fill_in(text: str) -> str:
    """Replace variables by their values here; a ValueError names one that is not set."""

    def value(variable: re.Match[str]) -> str:
        name = variable[1] or variable[2]
        filled = os.environ.get(name) or variable[3]
        if filled is None:
            raise ValueError(
                f"must name variables that are set here, {name} is not; set it, or write its value"
            )
        return filled

    return VARIABLE.sub(value, _without_shell(text))


def path_here(text: str) -> Path:
    """Return an absolute path, with ``~`` and variables filled in."""
    path = os.path.expanduser(fill_in(text))
    if path.startswith("~"):
        raise ValueError("must be in the home of a user who exists; write the whole path")
    return Path(path).absolute()


def _name(text: str) -> str:
    """A queue takes a name from a line of words, some without the quotes about it."""
    if text.startswith("-") or re.search(r"[\s'\"#\\]", text):
        raise ValueError("must be one word, without blanks, quotes, # or \\")
    return text


def _folder(text: str, info: ValidationInfo) -> str:
    path = _one_line(str(path_here(text)))
    if info.data.get("queue") == "slurm":
        if "\\" in path:
            raise ValueError("must hold no \\, which Slurm drops; name another folder")
    elif not re.fullmatch(r"[\w/.+=@~-]*", path, re.ASCII):
        raise ValueError(
            "must hold letters, digits and / . _ + = @ ~ - alone, as PBS and Grid Engine take them "
            "in the path of a log; name another folder"
        )
    return text


def _directive(text: str, info: ValidationInfo) -> str:
    queue = info.data.get("queue", "")
    mark = next((mark for mark in DIRECTIVES.values() if text.startswith(mark)), "")
    if mark not in ("", DIRECTIVES.get(queue)):
        raise ValueError(f"must be of {queue}; leave out what begins with {mark}")
    text = text.removeprefix(mark).strip()
    if not text.startswith("-"):
        raise ValueError("must begin with -; write for instance '--qos=long'")
    with suppress(ValueError):
        # An option of Grid Engine may have two values.
        if queue == "sge" or all(
            word.startswith("-") or (before.startswith("-") and "=" not in before)
            for before, word in pairwise(shlex.split(text, comments=True))
        ):
            return text
    raise ValueError("must have quotes about a value with blanks; write '--comment=\"a b\"'")


def _line_of_shell(text: str) -> str:
    if text.startswith(tuple(DIRECTIVES.values())):
        raise ValueError("must be shell; move lines of the header to directives")
    return text


def _size(value: Any) -> Any:
    size = SIZE.fullmatch(str(value).strip())
    if size:  # as queues count, so that a job never has less than asked
        return f"{size[1]}{size[2]}iB"
    if not isinstance(value, int | float) or value < 2**20:
        raise ValueError("must be a size such as 16G; name its unit")
    return value


def seconds_of(walltime: str) -> int:
    """Return the seconds of ``HH:MM:SS`` or ``D-HH[:MM[:SS]]``."""
    days, _, rest = walltime.rpartition("-")
    hours, minutes, seconds = (*map(int, rest.split(":")), 0, 0)[:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def clock(seconds: int) -> str:
    """Return a time as every queue knows it, HH:MM:SS, of 24 hours and more, too."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


Line = Annotated[str, AfterValidator(_one_line)]
Word = Annotated[str, Field(min_length=1), AfterValidator(_one_line)]
Name = Annotated[Word, AfterValidator(fill_in), AfterValidator(_name)]
OnNode = Annotated[Word, AfterValidator(_without_shell)]


class Profile(BaseModel):
    """Settings of a site's queue for one job, which is one worker on one GPU.

    Variables in names and in ``shared_folder`` are filled in where the profile is read, those in
    ``local_directory`` and ``python`` on the node.

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
        Of a job, as Slurm writes it: ``HH:MM:SS``, or after days ``D-HH[:MM[:SS]]``. It may be
        shorter than the run.
    cores, memory : int, bytes
        Of one job; ``16G``, ``16GB`` and ``16 GiB`` are 16 x 2^30 bytes.
    workers : int
        Jobs to ask for when the command line does not say.
    rmm_pool : str, optional
        As in ``ClusterOptions``, of jobs with a GPU.
    interface : str, optional
        Network interface that reaches the other nodes, such as ``ib0``.
    prologue : tuple of str
        Shell lines before the worker starts: ``module load ...``.
    python : str or tuple of str, optional
        The path of Python on a node, or the words of the command that starts it; by default the
        path of the one that asks.
    directives, skip_directives : tuple of str
        More header lines, with or without ``#SBATCH``; header lines that contain these are left
        out.
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
    walltime: str = "01:00:00"
    cores: Annotated[int, Field(strict=True, ge=1, le=MOST)] = 4
    memory: Annotated[ByteSize, BeforeValidator(_size), Field(ge=2**20, le=2**50)] = ByteSize(2**34)
    workers: Annotated[int, Field(strict=True, ge=1, le=MOST_WORKERS)] = 4
    rmm_pool: Annotated[str, BeforeValidator(rmm_pool_size)] | None = None
    interface: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:@-]+$")] | None = None
    prologue: tuple[Annotated[Line, AfterValidator(_line_of_shell)], ...] = ()
    python: tuple[OnNode, ...] | None = None
    directives: tuple[Annotated[Line, AfterValidator(_directive)], ...] = ()
    skip_directives: tuple[Word, ...] = ()
    shared_folder: Annotated[Word, AfterValidator(_folder), Field(validate_default=True)] = (
        "~/.cache/pleasingly"
    )
    local_directory: OnNode | None = None
    death_timeout: Annotated[int, Field(strict=True, ge=1, le=MOST)] = 120
    check_every: Annotated[float, Field(strict=True, gt=0, le=MOST)] = 15

    @field_validator("walltime", mode="before")
    @classmethod
    def _clock(cls, value: Any) -> Any:
        form = "must be HH:MM:SS or D-HH:MM:SS"
        if re.fullmatch(r"[0-9]{1,7}", str(value)):
            raise ValueError(
                f"{form}; a number is minutes to Slurm, for which write {clock(int(value) * 60)}, "
                f"and seconds to others, {clock(int(value))}"
            )
        if not WALLTIME.fullmatch(str(value)):
            raise ValueError(f"{form}; write 01:30:00 for an hour and a half")
        if seconds_of(str(value)) < SHORTEST:
            raise ValueError(f"must be {clock(SHORTEST)} or more")
        return value

    @field_validator("python", mode="before")
    @classmethod
    def _command(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if re.search(r"\s", value) and not path_here(value).is_file():
            raise ValueError(
                "must be a file that is here, if there is a blank in its path; write a list "
                "for a command, [srun, python], and for a path of the nodes, ['/a b/python']"
            )
        return (value,)

    @property
    def walltime_seconds(self) -> int:
        """Seconds a job may last."""
        return seconds_of(self.walltime)

    @property
    def mebibytes(self) -> int:
        """``memory`` in 2^20 bytes, rounded up."""
        return -(-self.memory // 2**20)

    def partition_for(self, gpu: bool) -> str | None:
        """Return the partition, or queue, of jobs with a GPU or without."""
        return (None if gpu else self.cpu_partition) or self.partition

    @property
    def shared_path(self) -> Path:
        """``shared_folder``, absolute, with ``~`` and variables filled in."""
        return path_here(self.shared_folder)


def user_folder() -> Path:
    """Return the folder of a user's own profiles."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "pleasingly"


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
    try:
        profile = Profile.model_validate(_read(name, seen=()))
    except ValidationError as error:
        first = error.errors()[0]
        key, message = first["loc"][0], first["msg"].removeprefix("Value error, ")
        rule, *way_out = message.split("; ", 1)
        rule = re.sub("^(Input|String) should", "must", rule).replace("Field r", "is r")
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


def _read(name: str, seen: tuple[str, ...]) -> dict[str, Any]:
    path = _path(name)
    if str(path) in seen:
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
    return values if base is None else _read(base, (*seen, str(path))) | values


def _path(name: str) -> Path:
    if name.endswith((".yaml", ".yml")) or os.sep in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise ClusterError(f"--profile must be a file that exists, got {name}")
        return path
    known = {path.stem: path for place in (SHIPPED, user_folder()) for path in place.glob("*.yaml")}
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=1)
    way_out = f"did you mean {close[0]}?" if close else f"or write {user_folder()}/{name}.yaml"
    raise ClusterError(
        f"--profile must be a file or one of {', '.join(sorted(known))}, got {name!r}; {way_out}"
    )
