"""The options by which commands name a network, or other code of the user's own."""

from __future__ import annotations

from typing import Any

from pipelines.data.user_code import absolute_name, named_code
from pipelines.run.options import option


def network_option(default: str, head: str = "") -> Any:
    """The option for a network; its help begins with ``head`` and ends with the default."""
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
    """An option of ``predict`` that names the user's own code of a run, such as a network."""
    return option(
        None,
        f"{subject}, if the run had one: named again, as a folder cannot name code to run",
        parse=absolute_name,
        metavar="FILE.py:NAME",
    )
