"""The benchmark of tables as they come, on two small ones."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.tables_as_they_come import main


@pytest.mark.slow
def test_every_table_of_a_folder_is_run_beside_its_peer(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80), "b": rng.choice(list("xyz"), 80)})
    frame.loc[::9, "a"] = np.nan
    frame["kind"] = np.where(frame.b == "x", "one", "two")
    folder = tmp_path / "tables"
    folder.mkdir()
    frame.to_csv(folder / "mixed.csv", index=False, sep=";")
    (folder / "unclear.csv").write_text("a,b\n1.5,2.5\n2.5,3.5\n")  # nothing to predict
    few = ["--n-c", "2", "--n-gamma", "2", "--folds", "2", "--results", str(tmp_path)]
    assert main([str(folder), *few]) == 0
    (kept,) = tmp_path.glob("*.json")
    mixed, refused = json.loads(kept.read_text())["lines"]
    assert mixed["n_cells"] == 8
    assert mixed["cells_that_differ"] <= 1
    assert mixed["understood"][0].startswith("table      mixed.csv: 80 rows, target 'kind'")
    assert mixed["cv_error"] < 0.1
    assert abs(mixed["cv_error"] - mixed["peer"]["cv_error"]) < 0.03
    assert "--target" in refused["refused"]
    assert "1 of 2 tables run through" in capsys.readouterr().out


def test_a_folder_without_tables_is_one_line(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "DIR must hold tables" in line
