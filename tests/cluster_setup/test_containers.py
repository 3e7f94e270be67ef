"""The Apptainer definitions: what they say fits the repository, and their scripts run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pipelines.commands import typed_names

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "cluster_setup" / "containers"
DEFINITIONS = sorted(FOLDER.glob("*.def"))
# What Apptainer's definition files may hold.
SECTIONS = {"files", "post", "environment", "runscript", "test", "help"}


def sections(definition):
    parts = re.split(r"^%(\w+)\n", definition.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_there_is_one_for_each_kind_of_device():
    assert [path.name for path in DEFINITIONS] == ["cpu.def", "gpu.def"]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.stem)
def test_a_definition_fits_the_repository(definition):
    texts = sections(definition)
    assert set(texts) == SECTIONS
    for line in texts["files"].split("\n"):
        if line.strip():
            source, target = line.split()
            assert (ROOT / source).exists(), source
            assert target == f"/opt/pleasingly/{source}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"'\.\[(.*)\]'", texts["post"])
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert ("gpu" in extras.split(",")) == (definition.stem == "gpu")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.stem)
@pytest.mark.parametrize("section", ["post", "environment", "runscript", "test"])
def test_its_scripts_are_shell(definition, section):
    subprocess.run(["sh", "-n"], input=sections(definition)[section], text=True, check=True)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.stem)
def test_apptainer_accepts_it(definition, tmp_path):
    apptainer = shutil.which("apptainer")
    if apptainer is None:
        pytest.skip("apptainer is not installed, and Debian and PyPI do not have it")
    # It reads the whole definition before it fetches the base image, which is not there.
    text = re.sub(
        "^Bootstrap: .*\nFrom: .*$",
        "Bootstrap: localimage\nFrom: none.sif",
        definition.read_text(),
        flags=re.MULTILINE,
    )
    (tmp_path / "other.def").write_text(text)
    done = subprocess.run(
        [apptainer, "build", str(tmp_path / "image.sif"), str(tmp_path / "other.def")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "none.sif" in done.stderr
    assert "parse" not in done.stderr


def run(*words, **environment):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [str(FOLDER / "entrypoint.sh"), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PATH": path} | environment,
    )


def test_the_entrypoint_lists_its_words():
    assert run().stdout == run("help").stdout
    assert all(name in run().stdout for name in (*typed_names(), "worker ADDRESS", "lab"))


@pytest.mark.parametrize("word", ["svm_grid", "svm-grid"])
def test_the_entrypoint_runs_a_command(word):
    assert "--n-gamma" in run(word, "--help").stdout


def test_the_entrypoint_runs_a_worker_of_the_device():
    assert "Usage: dask worker" in run("worker", "--help", PLEASINGLY_WORKER="worker").stdout


def test_the_entrypoint_runs_anything_else_as_it_stands():
    assert run("echo", "two  words").stdout == "two  words\n"


def test_the_entrypoint_takes_what_the_image_has_compiled_to_a_place_for_more(
    tmp_path,
):
    image, cache = tmp_path / "image", tmp_path / "own"
    (image / "cpu").mkdir(parents=True)
    (image / "cpu" / "walk.nbi").touch()
    places = {"PLEASINGLY_COMPILED": str(image), "NUMBA_CACHE_DIR": str(cache)}
    run("true", **places)
    assert (cache / "cpu" / "walk.nbi").exists()
    (cache / "cpu" / "walk.nbi").unlink()
    run("true", **places)  # what is there stays as it is
    assert not (cache / "cpu" / "walk.nbi").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"image", "own"}
