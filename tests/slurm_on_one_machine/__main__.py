"""``python -m tests.slurm_on_one_machine up`` and ``down``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cluster_setup.errors import ClusterError
from tests.slurm_on_one_machine import FOLDER, down, environment, up


def main(argv=None):
    """Bring Slurm up or take it down; give the exit status: 0, or 2 with one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.slurm_on_one_machine", description=__doc__
    )
    parser.add_argument("what", choices=("up", "down"))
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="what it keeps (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    try:
        if options.what == "down":
            down(options.folder)
            return 0
        up(options.folder)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 2
    for name, value in environment(options.folder).items():
        print(f"export {name}={value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
