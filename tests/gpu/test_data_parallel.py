"""One network on one GPU, as it is typed: a process group of one rank."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu.device import gpus
from benchmarks.gpu.figures import note

ROOT = Path(__file__).resolve().parents[2]


def test_one_rank_end_to_end():
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pipelines.data_parallel",
                "--cluster",
                "cuda",
                "--workers",
                "1",
                "--device",
                "gpu",
                "--epochs",
                "3",
                "--quiet",
                "--results",
                str(run),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        record = json.loads((run / "run.json").read_text())
    assert [worker["gpu"] for worker in record["cluster"]["workers"]] == [gpus()[0].name]
    assert record["status"] == "finished"
    note(f"3 epochs in {record['wall_seconds']:.1f} s")
