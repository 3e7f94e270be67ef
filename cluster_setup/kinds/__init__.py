"""The kinds of cluster, each a file with ``open_client``; ``options.KINDS`` lists them.

A kind whose workers are jobs also has ``job_script``, one that MPI starts has ``take_part``, and
one that can tell from the options what it cannot do has ``refuse``. A kind of another package is
such a module that is found by its entry point in the group ``pleasingly.clusters``; its
``OPTIONS`` are those options that it takes and not every kind does.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType

from cluster_setup.errors import ClusterError
from cluster_setup.options import KINDS

GROUP = "pleasingly.clusters"


def other_kinds() -> list[str]:
    """The names of the kinds of other packages, in alphabetical order."""
    return sorted(entry_points(group=GROUP).names - KINDS.keys())


def load_kind(kind: str) -> ModuleType:
    """The module of a kind, from here or another package; for an address it is ``address``.

    Raises
    ------
    ClusterError
        Several packages have a kind of that name, or it cannot be imported or has no
        ``open_client``.
    """
    if kind in KINDS:
        return import_module(f"{__name__}.{kind}")
    entries = {entry.value: entry for entry in entry_points(group=GROUP) if entry.name == kind}
    if not entries:
        return import_module(f"{__name__}.address")
    if len(entries) > 1:
        raise ClusterError(
            f"--cluster must be of one package, got {kind!r}, which is "
            f"{' and '.join(sorted(entries))}; uninstall one of them"
        )
    rule = f"--cluster {kind} must be a module with open_client, got {next(iter(entries))}"
    try:
        module: ModuleType = entries.popitem()[1].load()
    except Exception as error:  # the code of a package
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise ClusterError(
            f"{rule}, which cannot be imported ({why}); mend or uninstall its package"
        ) from error
    if not hasattr(module, "open_client"):
        raise ClusterError(f"{rule}; mend or uninstall its package")
    return module
