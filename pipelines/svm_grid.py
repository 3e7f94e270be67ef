"""Grid search of a kernel SVM over C and gamma: ``python -m pipelines.svm_grid``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.data.errors import InputError
from pipelines.run.errors import RunStopped
from pipelines.run.options import options_of_resumed_run, parse_options, print_error
from pipelines.search.svm_options import Options

if TYPE_CHECKING:
    from pipelines.run.folder import RunFolder

COMMAND = "svm_grid"
DESCRIPTION = "Find C and gamma of a kernel SVM by cross-validation on a grid, on every worker."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; give its exit status: 0, 1 (not finished) or 2 (bad input)."""
    from cluster_setup.errors import ClusterError

    try:
        options, given = parse_options(Options, COMMAND, DESCRIPTION, argv)
        folder = None
        if options.resume:
            folder, options = _open_earlier(Path(options.resume), given)
        from pipelines.search.svm_run import run

        return run(COMMAND, options, folder, list(sys.argv[1:] if argv is None else argv))
    except (InputError, ClusterError) as error:
        print_error(COMMAND, str(error))
        return 2
    except KeyboardInterrupt:
        print_error(COMMAND, "stopped on request")
        return 1
    except RunStopped as error:
        print_error(COMMAND, str(error))
        return 1


def _open_earlier(path: Path, given: dict[str, object]) -> tuple[RunFolder, Options]:
    from pipelines.run.folder import RunFolder

    folder = RunFolder.open(path, COMMAND)
    options = options_of_resumed_run(Options, folder.record["options"], given, path)
    return folder, dataclasses.replace(options, resume=str(path))


if __name__ == "__main__":
    sys.exit(main())
