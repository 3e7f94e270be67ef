"""environment.yml (conda) and pyproject.toml (pip) ask for the same packages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
EXTRAS = ("nn", "images", "gpu", "hpc", "notebooks")
# Where conda-forge and rapidsai name a package otherwise than PyPI.
CONDA_NAMES = {
    "cupy-cuda13x": "cupy",
    "duckdb": "python-duckdb",
    "matplotlib": "matplotlib-base",
    "torch": "pytorch-gpu",
}
CONDA_ALONE = {"python", "cuda-version", "pip"}


def conda():
    content = yaml.safe_load((ROOT / "environment.yml").read_text())
    versions = {}
    for line in content["dependencies"]:
        name, version = re.fullmatch(r"([a-z0-9.-]+)(.*)", line).groups()
        versions[name] = version
    return versions


def pip():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    wanted = map(Requirement, lines)
    return {
        CONDA_NAMES.get(need.name, need.name.removesuffix("-cu13")): need.specifier
        for need in wanted
    }


def as_conda(specifier):
    """``==26.10.*`` is ``=26.10`` in conda's language, and ``==1.2`` is ``=1.2``."""
    return ",".join(sorted(re.sub(r"^==(.*?)(\.\*)?$", r"=\1", str(part)) for part in specifier))


def test_both_name_the_same_packages_and_versions():
    wanted = {name: as_conda(specifier) for name, specifier in pip().items()}
    assert {name: text for name, text in conda().items() if name not in CONDA_ALONE} == wanted


def test_both_extras_for_gpus_are_the_same_but_for_the_cuda():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    of_cuda_12 = [line.replace("-cu13", "-cu12").replace("13x", "12x") for line in extras["gpu"]]
    assert of_cuda_12 == extras["gpu-cu12"]


def test_conda_has_the_python_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert conda()["python"].startswith(project["requires-python"])


def test_channels_are_those_of_rapids():
    content = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert content["channels"] == ["rapidsai", "conda-forge", "nvidia"]
