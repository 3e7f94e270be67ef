"""``make chaos-ranks``: ranks and launchers are killed at random; training must end as if not.

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
from pathlib import Path

import psutil

COMMAND = [sys.executable, "-m", "pipelines.data_parallel"]
RUN = [
    "--points",
    "4000",
    "--batch-size",
    "16",
    "--cluster",
    "local",
    "--workers",
    "2",
    "--dashboard",
    "off",
    "--checkpoint-seconds",
    "1",
]
UNDISTURBED = 3


def main(argv=None):
    """Kill, resume, compare; exit status 1 if the run did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.ranks", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, metavar="N", help="default: 20")
    parser.add_argument("--epochs", type=int, default=400, metavar="N", help="default: 400")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    options = parser.parse_args(argv)
    chance, epochs = random.Random(options.seed), ["--epochs", str(options.epochs)]
    runs = []
    with tempfile.TemporaryDirectory(prefix="ranks-") as name:
        quiet, killed = Path(name) / "quiet", 0
        repeats = ["--repeats", str(UNDISTURBED), "--quiet", "--results", str(quiet)]
        subprocess.run([*COMMAND, *RUN, *epochs, *repeats], check=True)
        losses = [training["validation_loss"] for training in _record(quiet)["trainings"]]
        print("undisturbed: loss", ", ".join(f"{loss:.4g}" for loss in losses), flush=True)
        most = max(losses) + (max(losses) - min(losses))
        for number in range(options.kills):  # runs; each takes what it can until it ends
            if killed >= options.kills:
                break
            folder = Path(name) / f"run-{number}"
            runs.append(_disturb(folder, epochs, chance, options.kills - killed, most))
            killed += runs[-1]["ranks"] + runs[-1]["launchers"]
            print(_line(runs[-1]), flush=True)
    all_held = killed == options.kills and all(run["held"] for run in runs)
    print(f"{killed} kills in all, all held" if all_held else "did not hold")
    return 0 if all_held else 1


def _disturb(folder, epochs, chance, most_kills, most_loss):
    """How often a run was struck, and whether it ended well and left no process."""
    program = subprocess.Popen([*COMMAND, *RUN, *epochs, "--results", str(folder)])
    seen, killed = {program.pid}, {"ranks": 0, "launchers": 0}
    while sum(killed.values()) < most_kills:
        time.sleep(chance.uniform(5, 15))
        if program.poll() is not None:
            break
        ranks = _ranks(program.pid)
        seen |= {rank.pid for rank in ranks}
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
    n_survivors = sum(psutil.pid_exists(pid) for pid in seen)
    loss = record["trainings"][0]["validation_loss"]
    return {
        **killed,
        "status": status,
        "loss": loss,
        "processes_left": n_survivors,
        "restarts": record["restarts"],
        "held": status == 0 and loss <= most_loss and not n_survivors,
    }


def _line(run):
    seconds = ", ".join(f"{restart['seconds']:.1f}" for restart in run["restarts"])
    return (
        f"killed {run['ranks']} ranks, {run['launchers']} launchers: status {run['status']}, loss "
        f"{run['loss']:.4g}, {run['processes_left']} processes left, restarts took "
        f"{seconds or 'no'} s"
    )


def _record(folder):
    return json.loads((folder / "run.json").read_text())


def _ranks(pid):
    """The workers of a launcher: processes that it spawned."""
    try:
        children = psutil.Process(pid).children()
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    except psutil.Error:
        return []


if __name__ == "__main__":
    sys.exit(main())
