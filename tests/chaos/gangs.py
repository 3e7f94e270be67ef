"""``make chaos-gangs``: ranks and launchers are killed at random; training must end as if not.

What is killed when follows from ``--seed``. A launcher that was killed is resumed. In the end the
loss lies within twice the spread of undisturbed trainings, and no process is left.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

COMMAND = [sys.executable, "-m", "pipelines.data_parallel"]
RUN = ["--points", "4000", "--batch-size", "16", "--cluster", "local", "--workers", "2",
       "--dashboard", "off", "--checkpoint-seconds", "1"]  # fmt: skip
UNDISTURBED = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Kill, resume, compare; exit status 1 if the run did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.gangs", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, metavar="N", help="default: 20")
    parser.add_argument("--epochs", type=int, default=400, metavar="N", help="default: 400")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    options = parser.parse_args(argv)
    chance, epochs = random.Random(options.seed), ["--epochs", str(options.epochs)]
    with tempfile.TemporaryDirectory(prefix="gangs-") as name:
        folder = Path(name)
        quiet = [*COMMAND, *RUN, *epochs, "--repeats", str(UNDISTURBED), "--quiet"]
        subprocess.run([*quiet, "--results", str(folder / "quiet")], check=True)
        losses = [one["validation_loss"] for one in _record(folder / "quiet")["trainings"]]
        program = subprocess.Popen([*COMMAND, *RUN, *epochs, "--results", str(folder / "run")])
        seen, killed = {program.pid}, {"ranks": 0, "launchers": 0}
        while program.poll() is None and sum(killed.values()) < options.kills:
            time.sleep(chance.uniform(5, 15))
            ranks = _ranks(program.pid)
            seen |= {one.pid for one in ranks}
            if program.poll() is not None:
                break
            if ranks and chance.random() < 0.8:
                chance.choice(ranks).kill()
                killed["ranks"] += 1
            elif (folder / "run" / "run.json").exists():
                program.kill()
                program.wait()
                killed["launchers"] += 1
                program = subprocess.Popen([*COMMAND, "--resume", str(folder / "run")])
                seen.add(program.pid)
        status = program.wait()
        record = _record(folder / "run")
        time.sleep(5)  # workers notice that their launcher is gone
        left = [pid for pid in seen if psutil.pid_exists(pid)]
    loss = record["trainings"][0]["validation_loss"]
    most = max(losses) + (max(losses) - min(losses))
    seconds = ", ".join(f"{one['seconds']:.1f}" for one in record["restarts"])
    print(f"killed {killed['ranks']} ranks and {killed['launchers']} launchers, status {status}")
    print(f"loss {loss:.4g}, undisturbed {', '.join(f'{one:.4g}' for one in losses)}")
    print(f"restarts took {seconds} s")
    print(f"{len(left)} processes are left")
    held = status == 0 and loss <= most and not left and sum(killed.values()) == options.kills
    print("held" if held else "did not hold")
    return 0 if held else 1


def _record(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text())


def _ranks(pid: int) -> list[psutil.Process]:
    """The workers of a launcher: processes that it spawned."""
    try:
        children = psutil.Process(pid).children()
        return [one for one in children if "spawn_main" in " ".join(one.cmdline())]
    except psutil.Error:
        return []


if __name__ == "__main__":
    sys.exit(main())
