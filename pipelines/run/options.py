"""Options of a command: declared once, as a field of a dataclass.

The flag, its parsing, the help, the check and the entry in ``run.json`` all
follow from the field.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from inspect import get_annotations
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pipelines.errors import InputError, flag_of, nearest, program


@dataclasses.dataclass(frozen=True)
class Rule:
    """What values an option may have.

    Attributes
    ----------
    text : str
        As help and docstrings say it.
    check : function of a value
        Returns the part of the rule that the value breaks, or None.
    """

    text: str
    check: Callable[[Any], str | None]


def rule(text: str, holds: Callable[[Any], bool]) -> Rule:
    """A rule with one message, which is its text, for all values that break it."""
    return Rule(text, lambda value: None if holds(value) else text)


Chosen = TypeVar("Chosen", bound=Any)  # a dataclass whose fields are options


def option(
    default: Any,
    help: str,
    *,
    parse: Callable[[str], Any] = str,
    rule: Rule | None = None,
    choices: Sequence[str] | None = None,
    metavar: str | tuple[str, ...] | None = None,
    nargs: int | str | None = None,
    changes_results: bool = True,
    path: str | None = None,
    python: bool = True,
    code: Callable[[Any], Sequence[str]] | None = None,
    positional: bool = False,
) -> Any:
    """A dataclass field that is a command-line option.

    Parameters
    ----------
    default : object
    help : str
    parse : function of a str, default str
    rule : Rule, optional
    choices : sequence of str, optional
    metavar : str or tuple of str, optional
        What the help calls the value.
    nargs : int or str, optional
        As in argparse. With ``"+"`` an option takes one value or more, and may be typed more than
        once.
    changes_results : bool, default True
        False for an option that only decides where and how a run is carried out. It may differ
        when the run is resumed.
    path : {"folder", "file", "data"}, optional
        What the value is a path of: a folder; what may be a file whose content decides results;
        or what may be a file whose content is in the fingerprint of the data. It is made absolute,
        so that a run can be resumed from any folder.
    python : bool, default True
        False for an option that has no meaning as a keyword of a function.
    code : function of a value, optional
        Names what the value would run: objects as in ``pipelines.data.user_code``, a file of
        commands, or an address to trust.
    positional : bool, default False
        True for an ``argument``.
    """
    metadata = {
        "help": help,
        "parse": parse,
        "rule": rule,
        "choices": choices,
        "metavar": metavar,
        "nargs": nargs,
        "changes_results": changes_results,
        "path": path,
        "python": python,
        "code": code,
        "positional": positional,
    }
    return dataclasses.field(default=default, metadata=metadata)


def argument(
    metavar: str, help: str, *, default: Any = dataclasses.MISSING, takes_several: bool = False
) -> Any:
    """A dataclass field that is a path on the command line without a flag.

    It is required if it has no default; with ``takes_several`` it is a tuple of one path or more.
    Messages name it by its ``metavar``, and it stays as it was typed.

    Parameters
    ----------
    metavar, help : str
    default : object, optional
    takes_several : bool, default False
    """
    nargs = "*" if takes_several else "?"
    return option(default, help, parse=Path, metavar=metavar, nargs=nargs, positional=True)


def at_least(minimum: float, maximum: float = math.inf) -> Rule:
    """The rule that a number is at least ``minimum`` and at most ``maximum``."""

    def check(value: float) -> str | None:
        if not value >= minimum:
            return f"at least {minimum}"
        return None if value <= maximum else f"at most {maximum:,}"

    text = f"at least {minimum}"
    return Rule(text if maximum == math.inf else f"{text} and at most {maximum:,}", check)


finite = rule("a finite number", math.isfinite)
positive = rule("above 0 and below 1000000", lambda value: 0 < value < 1e6)

# Within these bounds float64 holds C, gamma and their products.
increasing_log10 = rule(
    "two numbers between -30 and 30, the smaller first",
    lambda bounds: -30 <= bounds[0] <= bounds[1] <= 30,
)
number = partial(option, parse=int, rule=at_least(1), metavar="N")  # an integer
real = partial(option, parse=float, rule=finite, metavar="NUMBER")
list_option = partial(option, nargs="+")
fraction = partial(
    real, rule=rule("between 0 and 1", lambda value: 0 < value < 1), metavar="FRACTION"
)


def python_options(options_class: type[Any]) -> list[dataclasses.Field[Any]]:
    """The options that a command also has from Python, in the order of its help."""
    fields = [field for field in dataclasses.fields(options_class) if field.metadata["python"]]
    groups = ordered_groups([group_of(options_class, field.name) for field in fields])
    return sorted(fields, key=lambda field: groups.index(group_of(options_class, field.name)))


def _is_argument(field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata["positional"])


def _name(field: dataclasses.Field[Any]) -> str:
    """The flag of an option; of an argument without a flag, its name in the help."""
    return str(field.metadata["metavar"]) if _is_argument(field) else flag_of(field.name)


class OneLineParser(argparse.ArgumentParser):
    """An argparse parser that raises its errors as an InputError of one line."""

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        for type_name, words in (("int", "a whole number"), ("float", "a number")):
            message = message.replace(f": invalid {type_name} value: ", f" must be {words}, got ")
        raise InputError(message)


class _ShowVersion(argparse.Action):
    """Prints the version and exits; the version is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"pleasingly {version('pleasingly')}")
        parser.exit()


def make_parser(
    options: type[Any], command: str, description: str, uses: Sequence[str]
) -> OneLineParser:
    """The command-line parser of a command.

    Parameters
    ----------
    options : type
        The dataclass whose fields are the options.
    command : str
    description : str
        The beginning of ``--help``.
    uses : sequence of str
        Options of the example calls that ``--help`` ends with.
    """
    fields = dataclasses.fields(options)
    arguments = list(filter(_is_argument, fields))
    examples = [f"  {program(command)} {use}" for use in uses]
    parser = OneLineParser(
        prog=program(command),
        usage=" ".join(["%(prog)s", *map(_in_usage, arguments), "[options]"]),
        description="\n".join(wrap_text(description, shutil.get_terminal_size().columns - 2)),
        epilog="\n".join(["examples:", *examples]) if uses else None,
        formatter_class=Formatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        add_help=False,
    )
    # argparse alone takes -1e-3 for a flag, and a list that begins so.
    parser._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?(,.*)?$")
    argument_group = parser.add_argument_group("arguments")  # not shown if it is empty
    for field in arguments:
        words = {name: field.metadata[name] for name in ("metavar", "nargs", "help")}
        argument_group.add_argument(field.name, **words)
    fields = tuple(field for field in fields if not _is_argument(field))
    group_names = ordered_groups([group_of(options, field.name) for field in fields])
    groups = {name: parser.add_argument_group(name) for name in group_names}
    for field in fields:
        metadata, group = field.metadata, groups[group_of(options, field.name)]
        if field.default is False:
            group.add_argument(flag_of(field.name), action="store_true", help=metadata["help"])
            continue
        text = metadata["help"]
        if field.default not in (None, ()):
            text += f" (default: {as_text(field.default)})"
        group.add_argument(
            flag_of(field.name),
            action="extend" if metadata["nargs"] == "+" else "store",
            type=metadata["parse"],
            choices=metadata["choices"],
            metavar=metadata["metavar"],
            nargs=metadata["nargs"],
            help=text.replace("%", "%%"),  # argparse formats the help with %
        )
    groups[group_names[-1]].add_argument("-h", "--help", action="help", help="show this and exit")
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help=argparse.SUPPRESS)
    return parser


def _in_usage(field: dataclasses.Field[Any]) -> str:
    name = _name(field)
    if field.metadata["nargs"] == "*":
        name += f" [{name} ...]"
    return name if field.default is dataclasses.MISSING else f"[{name}]"


def check_options(options: Any) -> None:
    """Check every option against its rule, then options against each other by their ``check``.

    Raises
    ------
    InputError
        One line that names the option, the rule and the value.
    """
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        rule, choices = field.metadata["rule"], field.metadata["choices"]
        if rule is not None and value is not None and (broken_rule := rule.check(value)):
            raise InputError(f"{_name(field)} must be {broken_rule}, got {as_text(value)}")
        if choices and value not in choices:
            names = ", ".join(choices)
            raise InputError(f"{_name(field)} must be one of {names}, got {as_text(value)}")
    if hasattr(options, "check"):
        options.check()


def parse_options(
    options_class: type[Chosen],
    command: str,
    description: str,
    argv: Sequence[str] | None,
    uses: Sequence[str] = (),
) -> tuple[Chosen, dict[str, Any]]:
    """Read a command line.

    Parameters
    ----------
    options_class : type
        The dataclass whose fields are the options.
    command : str
    description : str
        The beginning of ``--help``.
    argv : sequence of str or None
        Words as they are typed; None for those of this process.
    uses : sequence of str, optional
        Options of the example calls that ``--help`` ends with.

    Returns
    -------
    options : instance of ``options_class``, checked
    typed_options : dict
        The options on the command line, with their values.

    Raises
    ------
    InputError
        An option is unknown, unreadable or breaks its rule, or an argument is missing.
    """
    fields = dataclasses.fields(options_class)
    # Intermixed: options may stand between the arguments, too.
    parsed, unknown_words = make_parser(
        options_class, command, description, uses
    ).parse_known_intermixed_args(argv)
    if unknown_words:
        flags = [flag_of(field.name) for field in fields if not _is_argument(field)]
        name = unknown_words[0].split("=")[0]
        name = getattr(options_class, "elsewhere", {}).get(name, name)
        way_out = getattr(options_class, "ways_out", {}).get(name)
        way_out = way_out or nearest(name, flags, "--help lists the options")
        raise InputError(f"{unknown_words[0]} is not an option of this command; {way_out}")
    typed_options = {
        name: tuple(word_or_list) if isinstance(word_or_list, list) else word_or_list
        for name, word_or_list in vars(parsed).items()
    }
    for field in filter(_is_argument, fields):
        if field.name in typed_options:
            value, parse = typed_options[field.name], field.metadata["parse"]
            is_list = isinstance(value, tuple)
            typed_options[field.name] = tuple(map(parse, value)) if is_list else parse(value)
        elif field.default is dataclasses.MISSING:
            meaning = field.metadata["help"]
            raise InputError(
                f"{_name(field)} must be {meaning}, got none; {program(command)} --help shows more"
            )
    options = options_class(**typed_options)
    paths = {
        field.name: _absolute(value, path)
        for field in fields
        if (path := field.metadata["path"]) and (value := getattr(options, field.name))
    }
    options = dataclasses.replace(options, **paths)
    for field in fields:
        value = getattr(options, field.name)
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and re.search("[\ud800-\udfff]", text):
                raise InputError(
                    f"{_name(field)} must be UTF-8, as the files of a run record it, got "
                    f"'{text}'; rename it, or give a link to it"
                )
    check_options(options)
    return options, {name: getattr(options, name) for name in typed_options}


def _absolute(value: Any, path: str) -> Any:
    if isinstance(value, tuple):
        return tuple(_absolute(part, path) for part in value)
    expanded = os.path.expanduser(value)
    is_path = path == "folder" or os.path.isfile(expanded)
    return os.path.abspath(expanded) if is_path else value


def as_text(value: Any, between: str = " ") -> str:
    """The value of an option as it is typed; ``between`` separates several values."""
    return between.join(map(str, value)) if isinstance(value, tuple) else str(value)


def group_of(options_class: type[Any], name: str) -> str:
    """The group of an option: that of the dataclass that declares it, else the command's."""
    owner = next(base for base in options_class.__mro__ if name in get_annotations(base))
    return str(vars(owner).get("group") or vars(options_class).get("group", "options"))


def ordered_groups(groups: Sequence[str]) -> list[str]:
    """Groups, each once, in the order of the help: data, the command's own, cluster, run."""
    order = {"data": -1, "cluster": 1, "run": 2}
    return sorted(dict.fromkeys(groups), key=lambda group: order.get(group, 0))


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help in lines as wide as the terminal, broken between words and nowhere else."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap_text(text, width)


def wrap_text(text: str, width: int) -> list[str]:
    """The lines of a text that is broken between words only."""
    text = " ".join(text.split())
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)
