"""Memory of processes, as Linux counts it."""

from __future__ import annotations

from pathlib import Path


def peak_bytes() -> int:
    """The most memory this process has held; files that are mapped included."""
    return _status("VmHWM")


def resident_bytes() -> int:
    """The memory this process holds now; files that are mapped included."""
    return _status("VmRSS")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")
