"""The command line: ``pleasingly COMMAND``, or ``python -m pipelines COMMAND``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from pipelines.commands import COMMANDS, typed_names


def usage() -> str:
    """The usage message, which lists the commands."""
    width = max(map(len, COMMANDS))
    named_commands = zip(typed_names(), COMMANDS.values(), strict=True)
    lines = [f"  {name:<{width}}  {command.sentence}" for name, command in named_commands]
    return "\n".join(
        [
            "usage: pleasingly COMMAND [options]",
            "",
            "commands:",
            *lines,
            "",
            "pleasingly COMMAND --help lists its options; pleasingly --version prints the version.",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns
    -------
    int
        Exit status of the command; 2 for an unknown command.
    """
    from pipelines.console import echo, flush_and_exit, print_error, take_any_terminal

    if argv is None and (folder := os.getcwd()) not in sys.path:
        sys.path.append(folder)  # the user's modules are found as with ``python -m``
    name, *rest = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if (command := COMMANDS.get(name.replace("-", "_"))) is not None:
        module = import_module(command.module)
        if argv is None:  # the command has this process to itself
            sys.argv = [sys.argv[0], *rest]
        return int(module.main(None if argv is None else rest))
    take_any_terminal()
    try:
        if name in ("-h", "--help"):
            echo(usage())
            return 0
        if name == "--version":
            import pipelines

            echo(f"pleasingly {pipelines.__version__}")
            return 0
        command_names = typed_names()
        close_names = get_close_matches(name, command_names, n=1)
        way_out = (
            f"did you mean {close_names[0]}?"
            if close_names
            else f"choose one of {', '.join(command_names)}"
        )
        print_error("pleasingly", f"unknown command {name!r}; {way_out}")
        return 2
    finally:
        flush_and_exit()


if __name__ == "__main__":
    sys.exit(main())
