import json

from benchmarks import path_scaling


def test_both_are_timed_at_every_size(tmp_path, capsys):
    figure = tmp_path / "figure.png"
    status = path_scaling.main(
        ["--dataset", "digits", "--sizes", "150", "300", "--results", str(tmp_path), "--figure",
         str(figure)]
    )  # fmt: skip
    assert status == 0
    record = json.loads(next(tmp_path.glob("*-path-scaling-digits.json")).read_text())
    assert [line["n_rows"] for line in record["lines"]] == [150, 300]
    assert all(line["path"] > 0 and line["grid_search_cv"] > 0 for line in record["lines"])
    assert all(line["largest_difference_rows"] <= 1 for line in record["lines"])
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "| 300" in capsys.readouterr().out


def test_bad_input_is_one_line(tmp_path, capsys):
    assert path_scaling.main(["--dataset", "minst", "--results", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
