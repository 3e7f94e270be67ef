"""``pleasingly check`` and ``pleasingly sbatch``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from cluster_setup.errors import ClusterError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; return the exit status: 0, 1 (not as it must be) or 2 (bad input)."""
    options = _parser().parse_args(argv)
    try:
        if options.what == "sbatch":
            return _sbatch(options)
        from cluster_setup.check import check

        name = options.profile or "generic-slurm"
        return check(name, options.device, not options.no_tls, echo=print)
    except ClusterError as error:
        print(f"cluster_setup: {_printable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("cluster_setup: stopped on request", file=sys.stderr)
        return 1


def _printable(text: str) -> str:
    """Return text on one line, without the control characters that a terminal obeys."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in " ".join(text.split())
    )


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"cluster_setup: {_printable(message)}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(prog="pleasingly", allow_abbrev=False)
    what = parser.add_subparsers(dest="what", metavar="check|sbatch", required=True)
    check = what.add_parser("check", help="submit one job and say what its worker sees")
    sbatch = what.add_parser("sbatch", help="write a script that runs a command in one allocation")
    for one in (check, sbatch):
        one.add_argument("--profile", metavar="NAME|FILE", help="the site's profile")
        one.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")
    check.add_argument("--no-tls", action="store_true", help="leave its port open")
    sbatch.add_argument("--workers", type=int, metavar="N", help="default: the profile's")
    sbatch.add_argument(
        "--script", metavar="FILE", help="what to write (default: COMMAND.sbatch; - for stdout)"
    )
    sbatch.add_argument("--force", action="store_true", help="overwrite an existing script")
    sbatch.add_argument("command", help="such as svm-grid")
    sbatch.add_argument("arguments", nargs=argparse.REMAINDER, help="of the command")
    return parser


def _sbatch(options: argparse.Namespace) -> int:
    from cluster_setup.sbatch import script

    text = script(
        options.command,
        options.arguments,
        profile=options.profile,
        workers=options.workers,
        device=options.device,
    )
    if options.script == "-":
        print(text, end="")
        return 0
    path = Path(options.script or f"{options.command.rpartition('.')[2]}.sbatch")
    try:
        with path.open("w" if options.force else "x") as file:
            file.write(text)
    except FileExistsError:
        raise ClusterError(
            f"--script must be a new file, got {path}, which is there already; "
            "write over it with --force, or name another file"
        ) from None
    except OSError as error:
        raise ClusterError(f"--script {path} cannot be written: {error.strerror}") from None
    print(_printable(f"submit it with sbatch {path}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
