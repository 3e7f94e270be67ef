"""A run that a job of a real Slurm starts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .conftest import jobs_in_queue, wait_until

Profile = Callable[..., str]


def test_the_script_of_the_documentation_runs_everything(profile, shared, tmp_path):
    root, folder = Path.cwd(), tmp_path / "run"
    (script,) = re.findall(
        r"```bash\n(.*?)```", (root / "docs/how-to/slurm.md").read_text(), flags=re.DOTALL
    )
    small = "--limit 200 --n-c 3 --n-gamma 2 --folds 2 --solver sklearn"
    for words, here in {
        "--cpus-per-task=2 --mem=8G": "--cpus-per-task=1",
        "exec pleasingly": f"exec {sys.executable} -m pipelines",
        "--profile mysite --workers 8": f"--profile {profile()} --workers 2 --results {folder}",
        "--dataset mnist --data-dir data": small,
    }.items():
        assert words in script
        script = script.replace(words, here)
    command = ["sbatch", f"--chdir={root}", f"--output={tmp_path}/log"]
    subprocess.run(command, input=script, text=True, check=True)
    wait_until(lambda: not jobs_in_queue())
    log = (tmp_path / "log").read_text()
    about = json.loads((folder / "run.json").read_text())
    assert about["status"] == "finished", log
    assert about["cluster"]["kind"] == "slurm"
    assert about["cluster"]["workers"][0]["address"].startswith("tls://")
    assert list(shared.iterdir()) == []
