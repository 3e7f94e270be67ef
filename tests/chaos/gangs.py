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
        quiet, all_held, killed = Path(name) / "quiet", True, 0
        repeats = ["--repeats", str(UNDISTURBED), "--quiet", "--results", str(quiet)]
        subprocess.run([*COMMAND, *RUN, *epochs, *repeats], check=True)
        losses = [one["validation_loss"] for one in _record(quiet)["trainings"]]
        print("undisturbed: loss", ", ".join(f"{one:.4g}" for one in losses), flush=True)
        most = max(losses) + (max(losses) - min(losses))
        for number in range(options.kills):  # runs; each takes what it can until it ends
            if killed >= options.kills:
                break
            n_killed, held = _disturb(
                Path(name) / f"run-{number}", epochs, chance, options.kills - killed, most
            )
            killed, all_held = killed + n_killed, all_held and held
    all_held = all_held and killed == options.kills
    print(f"{killed} kills in all, all held" if all_held else "did not hold")
    return 0 if all_held else 1


def _disturb(
    folder: Path, epochs: list[str], chance: random.Random, most_kills: int, most_loss: float
) -> tuple[int, bool]:
    """How often a run was struck, and whether it ended well and left no process."""
    program = subprocess.Popen([*COMMAND, *RUN, *epochs, "--results", str(folder)])
    seen, killed = {program.pid}, {"ranks": 0, "launchers": 0}
    while sum(killed.values()) < most_kills:
        time.sleep(chance.uniform(5, 15))
        if program.poll() is not None:
            break
        ranks = _ranks(program.pid)
        seen |= {one.pid for one in ranks}
        if ranks and chance.random() < 0.8:
            chance.choice(ranks).kill()
            killed["ranks"] += 1
        elif (folder / "run.json").exists():
            program.kill()
            program.wait()
            killed["launchers"] += 1
            program = subprocess.Popen([*COMMAND, "--resume", str(folder)])
            seen.add(program.pid)
    status, record = program.wait(), _record(folder)
    time.sleep(5)  # workers notice that their launcher is gone
    left = [pid for pid in seen if psutil.pid_exists(pid)]
    loss = record["trainings"][0]["validation_loss"]
    seconds = ", ".join(f"{one['seconds']:.1f}" for one in record["restarts"])
    print(
        f"killed {killed['ranks']} ranks, {killed['launchers']} launchers: status {status}, loss "
        f"{loss:.4g}, {len(left)} processes left, restarts took {seconds or 'no'} s",
        flush=True,
    )
    return sum(killed.values()), status == 0 and loss <= most_loss and not left


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
