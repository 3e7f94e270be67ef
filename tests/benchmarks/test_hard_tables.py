"""The benchmark of hard tables, on few rows."""

import json

from benchmarks.hard_tables import main


def test_both_peers_are_measured_on_the_same_cells(tmp_path, capsys):
    few = ["--table", "banknote", "--rows", "300", "--sample", "2", "--folds", "3"]
    assert main([*few, "--results", str(tmp_path)]) == 0
    (kept,) = tmp_path.glob("*.json")
    (line,) = json.loads(kept.read_text())["lines"]
    assert line["ours_cells"] == 2 * 24 * 3
    for peer in line["peers"].values():
        assert len(peer["cells"]) == 4
        assert peer["capped"] == 0
        assert all(cell["seconds"] > 0 for cell in peer["cells"])
        # 100 rows of validation: of classes that part, both err on the same but for a few.
        assert peer["largest_difference_rows"] <= 3
    said = capsys.readouterr().out
    assert "['banknote', '300', '4'" in said
    assert "(SVC)" in said
    assert "(sklearnex)" in said
