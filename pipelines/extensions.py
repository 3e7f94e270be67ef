"""Classes of other packages, such as strategies and loggers, found by their entry points.

A package declares its class in a group of entry points, such as ``pleasingly.strategies``, under
the name that users type. A class of this program cannot be replaced: its own names come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pipelines.errors import InputError, error_line, nearest, opt


@dataclass(frozen=True)
class Extensions:
    """All classes that implement an interface, by name: our own and those of other packages.

    Attributes
    ----------
    group : str
        Group of entry points.
    interface : str
        ``module:Class`` of the base class.
    option : str or None
        Parameter by which a user names a class, for messages; None if users name none.
    own_classes : mapping of str to str
        ``module:Class`` of each class of this program, by name.
    """

    group: str
    interface: str
    option: str | None = None
    own_classes: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """All names, our own first. Looks through all installed packages, some 20 ms."""
        return (*self.own_classes, *sorted(self._entries().names - self.own_classes.keys()))

    def load(self, name: str) -> Any:
        """The class with a name.

        Raises
        ------
        InputError
            No package or more than one declares the name, or its class cannot be imported or is no
            subclass of the interface.
        """
        if name in self.own_classes:
            return _resolve(self.own_classes[name])
        entries = {entry.value: entry for entry in self._entries() if entry.name == name}
        if len(entries) == 1:
            return self.load_entry(*entries.values())
        rule = f"must be one of {', '.join(names := self.names())}, got {name!r}; "
        rule += nearest(name, names, "install the package that has it")
        if entries:
            rule = (
                f"must be of one package, got {name!r}, which is {' and '.join(sorted(entries))}; "
                f"uninstall one of them"
            )
        raise InputError(f"{opt(str(self.option))} {rule}")

    def load_entry(self, entry: EntryPoint) -> Any:
        """The class that an entry point names.

        Raises
        ------
        InputError
            The class cannot be imported, or is no subclass of the interface.
        """
        interface = _resolve(self.interface)
        label = f"the entry point {entry.name} of {self.group}"
        rule = (
            f"{opt(self.option, entry.name) if self.option else label} must be a subclass of "
            f"{interface.__module__}.{interface.__name__}, got {entry.value}"
        )
        try:
            extension = entry.load()
        except Exception as error:  # the code of a package
            raise InputError(
                f"{rule}, which cannot be imported ({error_line(error)}); "
                f"mend or uninstall its package"
            ) from error
        if not (isinstance(extension, type) and issubclass(extension, interface)):
            raise InputError(f"{rule}; mend or uninstall its package")
        return extension

    def entries(self, name: str | None = None) -> tuple[EntryPoint, ...]:
        """Entry points of other packages: all, or those with a name."""
        return tuple(entry for entry in self._entries() if name in (None, entry.name))

    def distributions(self, name: str | None = None) -> tuple[str, ...]:
        """Distributions of other packages that declare a name, or any; results depend on them."""
        entries = () if name in self.own_classes else self.entries(name)
        return tuple(entry.dist.name for entry in entries if entry.dist)

    def _entries(self) -> Any:
        return entry_points(group=self.group)


def _resolve(reference: str) -> Any:
    """What ``module:name`` refers to."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
