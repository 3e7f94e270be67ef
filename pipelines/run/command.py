"""What every command's ``main`` does: read options, run, turn errors into lines and statuses."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.data.errors import InputError
from pipelines.run.errors import RunStopped
from pipelines.run.options import (
    Chosen,
    options_of_resumed_run,
    parse_options,
    print_error,
)

if TYPE_CHECKING:
    from pipelines.run_folder.folder import RunFolder

# (options, folder of the run to resume or None, the command line as typed) -> exit status
Run = Callable[[Any, "RunFolder | None", list[str]], int]


def main(
    command: str,
    description: str,
    options: type[Chosen],
    run: Run,
    argv: Sequence[str] | None = None,
) -> int:
    """Carry out a command.

    Parameters
    ----------
    command : str
        The module's name: ``python -m pipelines.COMMAND``.
    description : str
        First line of ``--help``.
    options : subclass of RunOptions
    run : function of (options, earlier run's folder or None, argv) -> int
    argv : sequence of str, optional
        By default what this program was called with.

    Returns
    -------
    int
        Exit status: 0, 1 (not finished) or 2 (bad input).
    """
    argv = list(sys.argv[1:] if argv is None else argv)

    def carry_out() -> int:
        chosen, given = parse_options(options, command, description, argv)
        earlier = None
        if chosen.resume:
            from pipelines.run_folder.folder import RunFolder

            path = Path(chosen.resume)
            earlier = RunFolder.open(path, command)
            chosen = options_of_resumed_run(options, earlier.record["options"], given, path)
            chosen = dataclasses.replace(chosen, resume=str(path))
        if chosen.dry_run:
            from pipelines.run.dry_run import refuse_what_a_run_would

            refuse_what_a_run_would(chosen)
        return run(chosen, earlier, argv)

    return exit_status(command, carry_out)


def exit_status(command: str, action: Callable[[], int]) -> int:
    """Run ``action``; an error of the user's or an early end is one line and a status."""
    from cluster_setup.errors import ClusterError

    try:
        return action()
    except (InputError, ClusterError) as error:
        print_error(command, str(error))
        return 2
    except KeyboardInterrupt:
        print_error(command, "stopped on request")
        return 1
    except RunStopped as error:
        print_error(command, str(error))
        return 1
