"""The benchmark of probabilities, on one split of the tables that are there."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.bagging_probabilities import LOOP, NETS, RAW, main, read_table


def test_a_table_that_is_missing_is_said(tmp_path, capsys):
    rng = np.random.default_rng(0)
    glass = "".join(
        f"{row},{row % 2 + rng.normal():.3f},{rng.normal():.3f},{row % 2}\n" for row in range(60)
    )
    (tmp_path / "glass.data.txt").write_text(glass)
    where = ["--data-dir", str(tmp_path), "--results", str(tmp_path / "kept")]
    assert main([*where, "--splits", "1", "--members", "2"]) == 0
    streams = capsys.readouterr()
    assert f"sonar is left out: --data-dir {tmp_path} has no sonar.dat" in streams.err
    (kept,) = (tmp_path / "kept").glob("*.json")
    tables = json.loads(kept.read_text())["tables"]
    assert [table["table"] for table in tables] == ["breast cancer", "glass"]
    for table in tables:
        (split,) = table["splits"]
        assert split["log_loss"] == table["mean"]["log_loss"]
        assert split["calibration_error"] == table["pooled"]
        assert split["error"][NETS] == split["error"][RAW]
        behind = split["log_loss"][NETS] - split["log_loss"][LOOP]
        assert table["mean"]["behind"]["log_loss"] == pytest.approx(behind)
        assert f"| {behind:+.3f} ± 0.000 |" in streams.out
    assert tables[0]["mean"]["error"][NETS] < 0.1


def test_text_with_commas_blanks_and_a_head_is_read(tmp_path):
    path = tmp_path / "some.dat"
    path.write_text("@relation some\n@data\n1, 0.5, 2, b\n2\t1.5\t3 a\n\n")
    X, y = read_table(path, unused=(0,))
    np.testing.assert_array_equal(X, [[0.5, 2], [1.5, 3]])
    np.testing.assert_array_equal(y, [1, 0])


def test_a_cell_that_is_no_number_is_one_line(tmp_path, capsys):
    (tmp_path / "sonar.dat").write_text("1, ?, M\n2, 3, R\n")
    assert main(["--data-dir", str(tmp_path)]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "must hold numbers" in line]
    assert "sonar.dat" in line
