"""The option that names a network, for every command that trains some."""

from __future__ import annotations

from typing import Any

from pipelines.data.user_code import absolute_name, named_code
from pipelines.run.options import option


def network_option(default: str, head: str = "") -> Any:
    """Return the option ``--network``; its help begins with ``of`` and ends with the default."""
    return option(
        None,
        f"{head}conv (the study's: one convolution), mlp, table, cnn, a name of torchvision.models "
        "(random weights), or your own nn.Module: module:Class or FILE.py:Class (default: "
        f"{default})",
        metavar="NAME",
        parse=absolute_name,
        code=named_code,
    )


def own_code_option(subject: str) -> Any:
    """Return an option of ``predict`` that names code of a run, such as a network, once more."""
    return option(
        None,
        f"{subject}, if the run had one: named again, as a folder cannot name code to run",
        parse=absolute_name,
        metavar="FILE.py:NAME",
    )
