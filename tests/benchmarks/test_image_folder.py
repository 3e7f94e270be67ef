"""The benchmark of decoding on a few images."""

from __future__ import annotations

import json

import pytest

from benchmarks import image_folder


@pytest.mark.slow
def test_the_comparison_keeps_a_page(tmp_path):
    options = ["--images", "8", "--side", "8", "--repeat", "2", "--results", str(tmp_path)]
    assert image_folder.main(options) == 0
    (kept,) = tmp_path.glob("*.json")
    assert [len(turns) for turns in json.loads(kept.read_text())["seconds"].values()] == [2] * 3
    assert "torchvision's loader" in kept.with_suffix(".md").read_text()


def test_a_mistake_is_one_line(capsys):
    assert image_folder.main(["--images", "0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{image_folder.COMMAND}: --images: must be at least 1, got 0")
