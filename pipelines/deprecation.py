"""Former names of the public surface: they work for one version, and warn.

Public are the names in ``pipelines.__all__`` and those that the reference of the documentation
has. From version 0.1.0 on, one that is to change works under its former name throughout the next
version, with a ``FutureWarning``; all other names may change at any time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

# Former names of ``pipelines``, each with the present one and the version that renamed it.
FORMER_NAMES: dict[str, tuple[str, str]] = {}


def warn_renamed(former: str, name: str, version: str, stacklevel: int = 3) -> None:
    """Warn of a former name; by default the warning points at the caller's caller."""
    message = f"{former} is called {name} since {version}, and the former name is to go; use {name}"
    warnings.warn(message, FutureWarning, stacklevel)


def renamed_parameters(version: str, **names: str) -> Callable[[Any], Any]:
    """Let a function take parameters by their former names as well.

    Parameters
    ----------
    version : the one that renamed them
    **names : the present name of each former one

    Returns
    -------
    decorator

    Raises
    ------
    TypeError
        By a call that gives a parameter under both names.

    Examples
    --------
    >>> @renamed_parameters("0.2.0", n_jobs="workers")
    ... def fit(workers: int = 1) -> int:
    ...     return workers
    >>> fit(workers=2)
    2
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            for former in names.keys() & keywords.keys():
                name = names[former]
                if name in keywords:
                    raise TypeError(
                        f"{function.__name__}() got {former} and {name}, its present name; "
                        f"leave {former} out"
                    )
                warn_renamed(former, name, version)
                keywords[name] = keywords.pop(former)
            return function(*arguments, **keywords)

        return call

    return decorate
