"""Memory, open files and the journal of a run, read from outside while it goes on."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LAUNCHER = "launcher"


@dataclass
class Watched:
    """What was seen of a run, one entry of every list for each look.

    Attributes
    ----------
    units : done by then, as lines of the journal
    seconds : since the first look
    journal_bytes : the size of the journal
    memory, files : for each process, bytes that it alone holds, and files that it has open;
        None where it was not there
    """

    units: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    journal_bytes: list[int] = field(default_factory=list)
    memory: dict[str, list[int | None]] = field(default_factory=dict)
    files: dict[str, list[int | None]] = field(default_factory=dict)


class _Journal:
    """Counts lines as they are added."""

    def __init__(self, path: Path) -> None:
        self._path, self.n_lines, self.n_bytes = path, 0, 0

    def read_on(self) -> None:
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self.n_bytes)
            new = file.read()
            self.n_lines += new.count(b"\n")
            self.n_bytes += len(new)


def watch(run: subprocess.Popen[Any], journal: Path, every: float) -> Watched:
    """Look at a run and its worker processes until it ends.

    Parameters
    ----------
    run : a command whose workers are its child processes
    journal : the file it writes
    every : seconds from one look to the next
    """
    import psutil

    seen, lines, names = Watched(), _Journal(journal), dict[int, str]()
    launcher, began = psutil.Process(run.pid), time.monotonic()
    while run.poll() is None:
        processes = {LAUNCHER: launcher}
        with suppress(psutil.Error):
            for child in launcher.children(recursive=True):
                if any("spawn_main" in word for word in child.cmdline()):
                    name = names.setdefault(child.pid, f"worker {len(names) + 1}")
                    processes[name] = child
        _look(seen, lines, processes, time.monotonic() - began)
        time.sleep(every)
    return seen


def _look(seen: Watched, lines: _Journal, processes: dict[str, Any], now: float) -> None:
    import psutil

    before = len(seen.units)
    lines.read_on()
    seen.units.append(lines.n_lines)
    seen.seconds.append(now)
    seen.journal_bytes.append(lines.n_bytes)
    for name in {*seen.memory, *processes}:
        memory: int | None = None
        files: int | None = None
        if name in processes:
            with suppress(psutil.Error):
                memory = processes[name].memory_full_info().uss or None  # 0: it has just ended
                files = processes[name].num_fds()
        seen.memory.setdefault(name, [None] * before).append(memory)
        seen.files.setdefault(name, [None] * before).append(files)
