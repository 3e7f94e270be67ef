"""The command on rows that stay on disk: what it says, refuses, leaves; how it goes on."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch", reason="networks are torch's")

from PIL import Image

from pipelines.data.image_folder import ImageReading
from pipelines.data.tables import Reading
from pipelines.data_parallel import DataParallel, Options, main
from pipelines.parallel.checkpoint import progress_of, read
from pipelines.parallel.training_problem import load_rows
from tests.command_runs import record, start


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    # Other images in each session: their cache by default is that of no other.
    folder, rng = tmp_path_factory.mktemp("data") / "images", np.random.default_rng()
    for i in range(420):
        path = folder / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 128, (9, 9), dtype=np.uint8) + 90 * (i % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


def options(images, *extra_options):
    local = ["--cluster", "local", "--dashboard", "off", "--network", "cnn", "--gray"]
    local += ["--input", "stream"]
    return [*local, "--dataset", str(images), *extra_options]


def test_options_of_rows_on_disk_are_said_to_do_nothing_in_memory(tmp_path, capsys):
    unused = ["--cache-dir", str(tmp_path / "cache"), "--loader-workers", "1"]
    words = ["--network", "mlp", "--dataset", "digits", "--cluster", "local", "--dry-run"]
    assert main([*words, *unused]) == 0
    line = "note       --loader-workers and --cache-dir: not used, as the rows are in memory"
    assert line in capsys.readouterr().out


def test_a_file_in_the_place_of_a_cache_is_refused(images, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(options(images, "--cache-dir", str(tmp_path / "file"))) == 2
    assert f"--cache-dir must be a folder, got the file '{tmp_path}" in capsys.readouterr().err


def test_a_cache_is_kept_where_it_was_asked_for_and_else_removed(images, tmp_path, capsys):
    short = ["--epochs", "2", "--workers", "1", "--loader-workers", "0"]
    kept = ["--cache-dir", str(tmp_path / "cache"), "--results", str(tmp_path / "first")]
    assert main(options(images, *short, *kept)) == 0
    assert f"MiB kept in '{tmp_path / 'cache'}'" in capsys.readouterr().out
    (cache,) = (tmp_path / "cache").iterdir()
    assert (cache / "whole").exists()
    assert main(options(images, *short, "--results", str(tmp_path / "second"))) == 0
    output = capsys.readouterr().out
    assert "input      as asked (0.0 GiB of" in output
    assert "images stay on disk, and are decoded as they are needed" in output
    assert "cache      removed" in output
    by_default = cache.name.replace("rows-", f"rows-{os.getuid()}-")
    assert not Path(tempfile.gettempdir(), by_default).exists()
    runs = [record(tmp_path / name) for name in ("first", "second")]
    assert runs[0]["test_loss"] == runs[1]["test_loss"]
    assert runs[0]["test_error"] < 0.2


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["--stages", "2"], "--input stream does not go with --stages 2; leave one out"),
        (
            ["--network", "approximator"],
            "--input stream does not go with --network approximator; leave one out",
        ),
        (["--dataset", "digits"], "--input stream is for a folder of images or a .parquet table"),
        (
            ["--input", "memory", "--cache-dir", "x"],
            "--cache-dir is for --input auto or stream, got memory; leave it out",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(capsys, typed, message):
    network = [] if "approximator" in typed else ["--network", "mlp"]
    assert main(["--input", "stream", "--cluster", "local", *network, *typed]) == 2
    line = capsys.readouterr().err
    assert message in line
    assert line.count("\n") == 1


def test_what_was_decided_by_size_is_recorded_for_a_run_that_is_resumed(images):
    settings = {"task": None, "target": None, "limit": None, "test_size": 0.2, "seed": 0}
    settings |= {"validation": 0.1, "reading": Reading(), "images": ImageReading(gray=True)}
    for input in ("stream", "memory"):
        data = load_rows(str(images), "cnn", (8,), **settings, input=input, data_dir=images.parent)
        plan = DataParallel().plan(Options(network="cnn", input="auto"), data, {})
        assert plan.options.input == ("stream" if input == "stream" else "auto")


@pytest.mark.slow
def test_killed_within_an_epoch_it_goes_on_with_the_rows_that_are_left(images, tmp_path):
    long = ["--epochs", "3", "--workers", "2", "--batch-size", "2", "--checkpoint-seconds", "0.01"]
    long += ["--loader-workers", "1"]
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    assert main(options(images, *long, "--results", str(whole), "--quiet")) == 0
    program = start("data_parallel", *options(images, *long, "--results", str(folder)))
    checkpoint = folder / "checkpoints" / "every-step-on-2-1.safetensors"
    until = time.monotonic() + 240
    while (content := read(checkpoint)) is None or not 9 < progress_of(content).position < 250:
        assert program.poll() is None, program.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)
    os.killpg(program.pid, signal.SIGKILL)
    program.communicate()
    assert progress_of(read(checkpoint)).position > 0
    again = start("data_parallel", "--resume", str(folder))
    output, errors = again.communicate(timeout=480)
    assert again.returncode == 0, errors
    assert "trained    every-step, 2 ranks" in output
    tables = [pd.read_parquet(run / "epochs.parquet") for run in (whole, folder)]
    for name in ("epoch", "step", "loss", "validation_loss"):
        assert np.allclose(tables[0][name], tables[1][name], rtol=1e-5)


@pytest.mark.slow
def test_an_image_that_only_one_rank_cannot_read_ends_the_run_in_one_line(images, tmp_path, capsys):
    folder = tmp_path / "images"
    shutil.copytree(images, folder)
    (folder / "b" / "201.png").write_bytes(b"no image")
    short = ["--epochs", "1", "--workers", "2", "--batch-size", "4", "--loader-workers", "1"]
    assert main(options(folder, *short, "--results", str(tmp_path / "run"), "--quiet")) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"'{folder}/b/201.png' is not: not a readable image; mend or remove it" in line
