"""The machine a result was measured on, without the name it has on its network."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import distributions
from pathlib import Path

GIB = 2**30


def describe_machine() -> dict[str, str | int | float | None]:
    """CPU model, cores this process may use, memory in GiB, system, Python."""
    return {
        "cpu": _cpu_model(),
        "cores": _cores(),
        "memory_gib": _memory_gib(),
        "system": _system(),
        "python": platform.python_version(),
    }


def in_words(machine: dict[str, str | int | float | None]) -> str:
    """A machine on one line."""
    memory = machine["memory_gib"]
    return (
        f"{machine['cpu']}, {machine['cores']} cores"
        + (f", {memory} GiB" if memory else "")
        + f", {machine['system']}, Python {machine['python']}"
    )


def installed(prefixes: tuple[str, ...]) -> dict[str, str]:
    """Versions of the installed distributions whose names begin with one of ``prefixes``."""
    packages = {
        distribution.name.lower(): distribution.version
        for distribution in distributions()
        if (distribution.name or "").lower().startswith(prefixes)
    }
    return dict(sorted(packages.items()))


def _cpu_model() -> str:
    try:
        content = Path("/proc/cpuinfo").read_text()
    except OSError:
        content = ""
    match = re.search(r"^model name\s*:\s*(.+)$", content, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB, 1)
    except (ValueError, OSError):  # not known on this system
        return None


def _system() -> str:
    # The full release may name whose machine it is; its number is what matters.
    number = re.match(r"\d+(\.\d+)*", platform.release())
    kernel = f"{platform.system()} {number[0] if number else ''}".strip()
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except (OSError, KeyError):
        return kernel
