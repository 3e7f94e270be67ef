"""What networks need to be installed."""

from __future__ import annotations

from importlib.util import find_spec

from pipelines.errors import InputError


def need_torch() -> None:
    """Say in one line what is missing where torch is.

    Raises
    ------
    InputError
        It is not installed.
    """
    if find_spec("torch") is None:
        raise InputError(
            "networks need torch, which is not installed; install the nn extra: "
            "pip install -c constraints.txt '.[nn]'"
        )
