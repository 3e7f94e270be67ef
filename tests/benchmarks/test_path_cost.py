"""The cost model: what it counts, how counts grow, and the arithmetic of seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import path_cost
from benchmarks.cost.cards import CARDS, REFERENCE
from benchmarks.cost.counts import COLUMNS, count_grid
from benchmarks.cost.extrapolate import grown, walks_of
from benchmarks.cost.instructions import iteration_loops
from benchmarks.cost.seconds import (
    ALONE,
    F_THEN,
    FIRST,
    SHARED,
    Kernel,
    Shape,
    Walks,
    fixed_seconds,
    ideal,
    job_seconds,
    predict,
)
from benchmarks.grid_search.lines import Problem, make_problem
from benchmarks.keep import RESULTS
from pipelines.svm.cpu.path import cross_validate_path

CS, GAMMAS = np.logspace(-2, 4, 7).tolist(), [1e-3, 1e-2]


@pytest.fixture(scope="module")
def grid() -> Problem:
    return make_problem("digits", Cs=CS, gammas=GAMMAS, n_folds=3, limit=500)


@pytest.mark.slow
@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_the_replayed_walk_is_the_solvers(grid: Problem, decision: str) -> None:
    record = count_grid(grid, decision, 10_000, 1.0, echo=lambda _: None)
    data = grid.data()
    found = cross_validate_path(
        data.scaled("cpu"), data.y, GAMMAS, CS, grid.folds[:1], decision=decision, n_threads=1
    )
    jobs = np.array(record["jobs"])
    assert len(jobs) == len(GAMMAS) * (45 if decision == "ovo" else 10)
    for g in range(len(GAMMAS)):
        ours = jobs[jobs[:, 0] == g, COLUMNS.index("iterations")].sum()
        # The CPU's walk tries another start beside each, and keeps members of earlier solves.
        assert ours == pytest.approx(found.n_iterations[g].sum(), rel=0.5)
    solves, iterations, visited = (
        jobs[:, COLUMNS.index(name)] for name in ("solves", "iterations", "visited")
    )
    assert (visited >= 2 * iterations).all()
    assert (visited <= jobs[:, COLUMNS.index("n")] * iterations).all()
    assert (solves >= jobs[:, COLUMNS.index("solved")] - len(CS)).all()


def test_more_members_than_fit_means_all_rows(grid: Problem) -> None:
    jobs = np.array(count_grid(grid, "ovo", 2, 1.0, [0], lambda _: None)["jobs"], dtype=float)
    n, iterations, visited = jobs[:, 2], jobs[:, 5], jobs[:, 6]
    np.testing.assert_array_less(0.9 * n * iterations, visited)


def record_of(n_train: int, gammas: list[float], scale: float) -> dict[str, Any]:
    jobs = [
        [g, problem, n_train // 2, 5, 10 * scale, 1000 * scale * (g + 1), 50_000 * scale, 7 * scale]
        for problem in range(3)
        for g in range(len(gammas))
    ]
    sizes = {"n_features": 784, "n_classes": 10, "n_C": 24, "n_folds": 5}
    return {"n_train": n_train, "gammas": gammas, "jobs": jobs, **sizes}


def test_counts_grow_as_they_did() -> None:
    small = record_of(1000, [1e-4, 1e-3, 1e-2], 1.0)
    large = record_of(2000, [1e-4, 1e-3, 1e-2], 4.0)  # as the square of the rows
    jobs, expected = grown([small, large], 6000), np.array(small["jobs"], dtype=float)
    np.testing.assert_allclose(jobs[:, 4:], 36 * expected[:, 4:])
    np.testing.assert_allclose(jobs[:, 2], 6 * expected[:, 2])
    # Gammas and problems that were not replayed grow as their neighbours.
    part = {**large, "gammas": [1e-3], "jobs": [[0, *one[1:]] for one in large["jobs"][1:4:3]]}
    np.testing.assert_allclose(grown([small, part], 6000)[:, 4:], 36 * expected[:, 4:])


def some_walks(n_jobs: int = 400) -> Walks:
    rng = np.random.default_rng(0)
    iterations = np.exp(rng.normal(12, 1, n_jobs))
    return Walks(
        np.full(n_jobs, 9600.0), iterations, np.full(n_jobs, 640.0), np.full(n_jobs, 50.0),
        np.full(n_jobs, 5000.0), np.argsort(-iterations),
    )  # fmt: skip


def copies(walks: Walks, count: int) -> Walks:
    """So many of the first job."""
    counts = {
        name: np.full(count, getattr(walks, name)[0])
        for name in ("n", "iterations", "members", "solves", "taken_off")
    }
    return Walks(**counts, order=np.arange(count))


def test_the_fixed_cost_goes_through_what_is_known() -> None:
    for warps, seconds in (ALONE, SHARED):
        assert fixed_seconds(warps, F_THEN, REFERENCE) == pytest.approx(seconds)
    # Fewer warps wait for the same chain of instructions; half the instructions take half.
    assert fixed_seconds(4, F_THEN, REFERENCE) == pytest.approx(ALONE[1])
    assert fixed_seconds(16, F_THEN // 2, REFERENCE) == pytest.approx(ALONE[1] / 2)
    assert fixed_seconds(16, F_THEN, CARDS["A100"]) > ALONE[1]


def test_a_launch_lasts_as_long_as_its_queue_and_its_chain() -> None:
    walks, shape, card = some_walks(), Shape(256, 4), CARDS["H100"]
    found = predict(walks, shape, FIRST, card)
    assert found.seconds >= max(found.chain, found.memory)
    assert found.seconds >= ideal(walks, Shape(256, 4), FIRST, card) * 0.5
    alone = predict(copies(walks, 1), shape, FIRST, card)
    assert alone.seconds == pytest.approx(alone.chain)
    # As many equal jobs as blocks: all end together, at the speed of full multiprocessors.
    full = job_seconds(copies(walks, 1), shape, FIRST, card, 4)[0]
    assert predict(copies(walks, 528), shape, FIRST, card).seconds == pytest.approx(full)
    assert predict(copies(walks, 1056), shape, FIRST, card).seconds == pytest.approx(2 * full)


def test_a_compact_kernel_reads_less_and_copies_first() -> None:
    walks, shape, card = some_walks(), Shape(128, 8), CARDS["H200"]
    compact = Kernel(700, FIRST.member, member_bytes=8, gathers=True)
    one, other = (predict(walks, shape, kernel, card) for kernel in (FIRST, compact))
    assert other.seconds < one.seconds
    copied = (walks.solves * walks.members**2).sum() * 32
    kept = (walks.iterations * walks.members).sum() * (64 - 8)
    assert one.read_bytes - other.read_bytes == pytest.approx(kept - copied)


def test_the_longest_may_be_first() -> None:
    jobs = grown([record_of(1000, [1e-4, 1e-2], 1.0), record_of(2000, [1e-4, 1e-2], 2.0)], 4000)
    walks = walks_of(jobs, 5, "iterations")
    assert len(walks.n) == 5 * len(jobs)
    assert (np.diff(walks.iterations[walks.order]) <= 0).all()
    assert walks_of(jobs, 5, most=20).members.max() == 20
    by_rows = walks_of(jobs, 5)
    assert sorted(by_rows.order.tolist()) == list(range(5 * len(jobs)))


SASS = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   FADD R1, R1, R2 ;
        /*0020*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0030*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0040*/              @P0  BRA `(.L_x_1) ;
.L_x_2:
        /*0050*/                   LDL R3, [R1] ;
.L_x_3:
        /*0060*/                   DFMA R4, R4, R6, R8 ;
        /*0070*/                   DADD R4, R4, R6 ;
        /*0080*/              @!P1 BRA `(.L_x_3) ;
        /*0090*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_4:
        /*00a0*/                   DSETP.GT.AND P0, PT, R4, R6, PT ;
        /*00b0*/              @P2  BRA `(.L_x_4) ;
.L_x_5:
        /*00c0*/                   FMUL R4, R4, R6 ;
        /*00d0*/                   MUFU.RCP R4, R6 ;
        /*00e0*/                   FMUL R4, R4, R6 ;
        /*00f0*/              @P2  BRA `(.L_x_5) ;
        /*0100*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0110*/                   MUFU.RCP64H R5, R7 ;
        /*0120*/                   CALL.REL.NOINC `($_division) ;
        /*0130*/             @!UP0 BRA `(.L_x_2) ;
        /*0140*/                   EXIT ;
"""


def test_instructions_of_an_iteration_are_counted() -> None:
    (loop,) = iteration_loops(SASS)
    assert loop.inner == (3, 2, 4)
    assert (loop.fixed, loop.barriers, loop.local, loop.calls) == (6, 2, 1, 1)
    assert loop.fixed_of_a_warp == 8  # and a turn of the loop over warps
    assert loop.for_32_members == 7 / 4


def counts_of(path: Path) -> None:
    records = {
        decision: [
            record_of(1000, [1e-4, 1e-3], 1.0),
            record_of(2000, [1e-4, 1e-3], 2.0),
        ]
        for decision in ("ovo", "ovr")
    }
    (path / path_cost.COUNTS).write_text(json.dumps(records))


def test_the_command_keeps_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts_of(tmp_path)
    sass = tmp_path / "kernel.sass"
    sass.write_text(SASS)
    assert path_cost.main(["--results", str(tmp_path), "--rows", "4000"]) == 0
    (path,) = tmp_path.glob("????-??-??-path-cost.json")
    first = json.loads(path.read_text())
    assert len(first["lines"]) == 2 * len(CARDS) * len(path_cost.SHAPES)
    assert first["kernel"]["fixed"] == F_THEN
    assert "Nothing here was measured" in " ".join(capsys.readouterr().out.split())
    options = ["--sass", str(sass), "--gathers", "--rows", "4000"]
    assert path_cost.main([*options, "--results", str(tmp_path)]) == 0
    second = json.loads(next(tmp_path.glob("*-path-cost-compiled.json")).read_text())
    assert second["kernel"] == {
        "fixed": 8, "member": 7 / 4, "member_bytes": 8, "gathers": True, "members": None,
        "order": "rows",
    }  # fmt: skip
    for one, other in zip(first["lines"], second["lines"], strict=True):
        assert other["seconds"] < one["seconds"]


def test_what_it_needs_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert path_cost.main(["--results", str(tmp_path)]) == 2
    counts_of(tmp_path)
    empty = tmp_path / "empty.sass"
    empty.touch()
    for name in ("none.sass", "empty.sass"):
        assert path_cost.main(["--results", str(tmp_path), "--sass", str(tmp_path / name)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "--results must hold" in lines[0]
    assert all("--sass must" in line for line in lines[1:])


def test_the_kept_counts_are_those_it_says() -> None:
    """The study's grid: iterations of all folds, as large subsets and parts of MNIST have them."""
    kept = json.loads(Path(RESULTS, path_cost.COUNTS).read_text())
    for decision, low, high in (("ovo", 5e8, 1e9), ("ovr", 2e9, 1e10)):
        iterations = walks_of(grown(kept[decision], 60_000), 5).iterations.sum()
        assert low < iterations < high
