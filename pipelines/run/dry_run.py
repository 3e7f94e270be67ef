"""What a run would find out only when it begins, found out by ``--dry-run``."""

from __future__ import annotations

from pathlib import Path

from cluster_setup import resolve_kind
from cluster_setup.on_this_machine.devices import visible_gpus
from pipelines.data.errors import InputError
from pipelines.run.options import RunOptions
from pipelines.run_folder.folder import refuse_taken


def refuse_what_a_run_would(options: RunOptions) -> None:
    """Look at the folder of the results, and for the GPU that is asked of this machine.

    Raises
    ------
    InputError
        The folder is not empty, or there is no GPU.
    """
    if options.results:
        refuse_taken(Path(options.results))
    if options.device != "gpu" or resolve_kind(options.cluster, options.profile) != "local":
        return
    if not visible_gpus():
        raise InputError(
            "--device gpu needs a GPU, and this machine has none; use --device cpu, "
            "or a --cluster that has GPUs"
        )
