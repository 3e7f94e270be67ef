"""``make test-release``: what is published is built, installed into an empty environment and run.

Nothing but the standard library: it runs before anything is installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main():
    """Build the sdist, from it the wheel; install that, and run the main command by its name."""
    uv, dist = ROOT / ".venv/bin/uv", ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    _run(uv, "build", "--quiet", "--out-dir", dist, ROOT)
    (wheel,) = dist.glob("*.whl")
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name)
        venv.create(empty / "venv")
        bin_ = empty / "venv/bin"
        _run(
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            bin_ / "python",
            "--constraints",
            ROOT / "constraints.txt",
            wheel,
        )
        _run(
            bin_ / "pleasingly",
            "svm-grid",
            "--n-c",
            "2",
            "--n-gamma",
            "2",
            "--results",
            empty / "run",
            at=empty,
        )
        record = json.loads((empty / "run/run.json").read_text())
        assert record["status"] == "finished", record["status"]
        assert (empty / "run/report.html").stat().st_size > 10_000
    print(f"{wheel.name} installs into an empty environment and runs")


def _run(*words, at=ROOT):
    ended = subprocess.run([str(word) for word in words], cwd=at, check=False)
    if ended.returncode:
        sys.exit(f"{words[0]} ended with {ended.returncode}")


if __name__ == "__main__":
    main()
