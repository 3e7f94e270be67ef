"""The notebooks as they are kept; ``make test`` executes them with nbmake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def test_all_seven_are_here() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "01_svm_grid", "02_nn_bagging", "03_clusters", "04_reading_a_run",
        "05_pagerank", "06_cross_validate", "07_data_parallel",
    ]  # fmt: skip


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_kept_without_outputs(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    assert len(cells) < 15
    for cell in cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_logic_of_its_own(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    words = code.split()
    assert not {"def", "class", "lambda"} & set(words)
    assert "from pipelines" in code or "from cluster_setup" in code
