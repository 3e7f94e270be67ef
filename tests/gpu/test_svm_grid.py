"""The main job on the GPUs of this machine, as it is typed."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu.compiling import warming_up
from benchmarks.gpu.device import gpus
from benchmarks.gpu.figures import note

ROOT = Path(__file__).resolve().parents[2]
SIZE = ["--n-c", "3", "--n-gamma", "2", "--folds", "3"]
BOUNDS = ["--log-c", "0", "2", "--log-gamma", "-3", "-2"]


def svm_grid(run, *options):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pipelines.svm_grid",
            "--cluster",
            "cuda",
            "--quiet",
            "--results",
            str(run),
            *BOUNDS,
            *options,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # Quiet: the folder and nothing else; stderr is left to the libraries' own remarks.
    assert done.stdout.split() == [str(run)]
    assert "Traceback" not in done.stderr


def test_digits_end_to_end():
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        with warming_up():  # what the workers compile stays on disk
            svm_grid(Path(folder, "first"), "--n-c", "1", "--n-gamma", "1", "--folds", "2")
        svm_grid(run, *SIZE)
        assert (run / "report.html").stat().st_size > 0
        record = json.loads((run / "run.json").read_text())
    workers = record["cluster"]["workers"]
    assert sorted(worker["gpu"] for worker in workers) == sorted(gpu.name for gpu in gpus())
    assert record["solver"] == "path"
    assert record["status"] == "finished"
    assert record["test_error"] < 0.05
    note(f"test error {record['test_error']:.2%} in {record['wall_seconds']:.1f} s")
