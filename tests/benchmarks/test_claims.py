"""``make claims`` measures, compares, and says what it does not run."""

from __future__ import annotations

import sys

import pytest

from benchmarks import claims
from benchmarks.claims import Claim, Command, at

RECORD = {
    "lines": [
        {"line": "ours", "seconds": [1.0, 2.0, 9.0], "rate": 8.0},
        {"line": "theirs", "seconds": [4.0, 6.0, 8.0], "rate": 2.0},
    ]
}
TOML = """
[commands.one]
kept = "2026-11-27-own-searches"
commit = "7f25c1c0"
large = "benchmarks.own_searches"
small = "benchmarks.own_searches --repeat 1"
seconds = 1

[commands.card]
kept = "2026-11-27-notes-gpu.md"
commit = "a61599dd"
large = "benchmarks.gpu_check"
needs = "gpu"

[claims.first]
command = "one"
figure = ["lines", { line = "theirs" }, "seconds"]
over = ["lines", { line = "ours" }, "seconds"]
quoted = "3"
small = 3.0
peer = "a peer"
places = []

[claims.large]
command = "one"
figure = ["absent"]
quoted = "3"
peer = ""
places = []

[claims.second]
command = "card"
quoted = "41"
peer = ""
places = []
"""


def claim(**fields):
    return Claim(**{"command": "one", "quoted": "3", "places": [], "peer": "", **fields})


def test_a_figure_is_found_by_its_way():
    ours, theirs = ({"line": name} for name in ("ours", "theirs"))
    assert claim(figure=["lines", ours, "seconds"]).value(RECORD) == 2.0
    ratio = claim(figure=["lines", theirs, "seconds"], over=["lines", ours, "seconds"])
    assert ratio.value(RECORD) == 3.0
    assert claim(figure=["lines", "*", "rate"]).value(RECORD) == pytest.approx(4.0)
    sums = claim(figure=["lines", "*", "rate"], over=["lines", "*", "rate"], mean="sums", scale=100)
    assert sums.value(RECORD) == 100.0
    assert list(at(RECORD, ["lines", 0, "line"])) == ["ours"]
    with pytest.raises(claims.InputError, match="one item"):
        claim(figure=["lines", {"line": "none"}, "rate"]).value(RECORD)


def test_worse_is_a_fifth_from_the_kept_value():
    higher, lower = claim(small=10.0), claim(small=10.0, better="lower")
    assert [higher.is_worse(value) for value in (7.9, 8.1, 20.0)] == [True, False, False]
    assert [lower.is_worse(value) for value in (12.1, 11.9, 1.0)] == [True, False, False]


def test_what_cannot_run_says_why():
    command = Command("", "", "", packages=["no_such_package"])
    assert command.why_not() == "needs no_such_package (benchmarks/peers.txt)"
    assert Command("", "", "", needs="hours").why_not() == "takes hours"
    assert Command("", "", "", packages=["numpy"]).why_not() == ""


@pytest.fixture
def listed(tmp_path, monkeypatch):
    path = tmp_path / "claims.toml"
    path.write_text(TOML)
    read = claims.read
    monkeypatch.setattr(claims, "read", lambda: read(path))
    monkeypatch.setattr(claims, "measure", lambda words, data_dir: RECORD)
    write = claims.write
    monkeypatch.setattr(claims, "write", lambda name, value: write(name, value, path))
    return path


def test_kept_and_measured_are_printed(listed, capsys):
    assert claims.main([]) == 0
    output = capsys.readouterr().out
    assert "first: 3, kept 3, quoted 3" in output
    assert "large: not in the short form, quoted 3" in output
    assert (
        "card: not run, needs a GPU; kept in benchmarks/results/2026-11-27-notes-gpu.md" in output
    )


def test_what_is_worse_ends_with_1(listed, capsys):
    listed.write_text(TOML.replace("small = 3.0", "small = 4.0"))
    assert claims.main(["first"]) == 1
    assert "first is worse by more than 20%: 3, kept 4" in capsys.readouterr().err
    assert claims.main(["first", "--keep"]) == 0
    assert listed.read_text() == TOML.replace("small = 3.0", "small = 3")
    assert claims.main(["one"]) == 0


def test_a_command_that_fails_does_not_keep_the_others(listed, monkeypatch, capsys):
    def fail(words, data_dir):
        raise claims.InputError("no room")

    monkeypatch.setattr(claims, "measure", fail)
    assert claims.main([]) == 1
    streams = capsys.readouterr()
    assert "no room" in streams.err
    assert "card: not run" in streams.out


def test_an_unknown_name_is_one_line(listed, capsys):
    assert claims.main(["third"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "NAME must be one of one, card, first, large, second, got third" in line


def test_a_command_that_fails_says_how(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(claims.InputError, match=r"must run here: exit status 1"):
        claims.measure("benchmarks.own_searches", "data")
