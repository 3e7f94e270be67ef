"""gpu_check: its table, its answer where there is no GPU, and how it carries out checks."""

import ast
import importlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks import gpu_check
from benchmarks.gpu import (
    carry_out,
    checks,
    child,
    cuml_fits,
    device,
    figures,
    first_launches,
    formations,
    path_grid,
)
from benchmarks.gpu.carry_out import BEGUN, FAILED, NOT_RUN, PASSED, Outcome
from benchmarks.gpu.checks import CHECKS, Check
from benchmarks.gpu.device import Driver, Gpu
from benchmarks.gpu.page import describe, page, table
from benchmarks.timing import Timed
from pipelines.data.placement import FoldedData

ROOT = Path(__file__).resolve().parents[2]
ONE_GPU = [Gpu("NVIDIA Example 1", 81920)]


@pytest.fixture
def with_a_gpu(monkeypatch):
    for module in (checks, gpu_check):
        monkeypatch.setattr(module, "gpus", lambda: ONE_GPU)


def carried_out(checks, seconds, folder, echo=lambda _: None):
    """What became of them, less that they had begun."""
    outcomes = carry_out.carry_out(checks, seconds, folder, echo)
    return [outcome for outcome in outcomes if outcome.status != BEGUN]


def write(path, source):
    path.write_text(source)
    return path


def test_without_a_gpu_it_says_what_is_needed(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(gpu_check, "gpus", list)
    assert gpu_check.main(["--results", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "needs an NVIDIA GPU" in err
    assert not list(tmp_path.iterdir())


def test_every_gpu_test_has_its_entry():
    files = {f"tests/gpu/{path.name}" for path in (ROOT / "tests/gpu").glob("test_*.py")}
    assert files == {check.target for check in CHECKS if check.target.endswith(".py")}


def test_every_benchmark_of_the_table_is_there():
    for check in CHECKS:
        if not check.target.endswith(".py"):
            module, function = check.target.split(":")
            assert callable(getattr(importlib.import_module(module), function))


ONLY_THESE = """
import os
from importlib.machinery import PathFinder
absent = set(os.environ["ABSENT"].split())
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *a: None if name.split(".")[0] in absent else find(name, *a)
"""
ON_A_CPU = {
    "benchmarks.gpu.first_launches:launch_kernels": """
import numpy as np, pipelines.svm.cuda.path
from pipelines.svm.cpu.path import cross_validate_path
rows = np.arange(40)
cross_validate_path(rows[:, None] / 40, rows % 2, [0.1], [1.0], [(rows[:20], rows[20:])])
""",
    "tests/gpu/test_placement.py": """
from tests.gpu.test_placement import *
some_data(Scaling("standardise")).scaled("cpu")
""",
    "tests/gpu/test_nn.py": """
from tests.gpu.test_nn import *
rows_of(digits(), MLP, "cpu", max_epochs=1)
""",
    "tests/gpu/test_svm_grid.py": """
from pipelines.svm_grid import run
if __name__ == "__main__":
    run(cluster="threads", n_c=1, n_gamma=1, folds=2, quiet=True, results="run")
""",
    "tests/gpu/test_data_parallel.py": """
from pipelines.data_parallel import run
if __name__ == "__main__":
    run(cluster="local", workers=1, points=300, epochs=1, quiet=True, results="run")
""",
    "tests/gpu/test_cuda_cluster.py": """
from tests.gpu.test_cuda_cluster import open_cluster
if __name__ == "__main__":
    with open_cluster("local", workers=1) as client:
        client.run(len, ())
""",
    "tests/gpu/test_pagerank.py": """
from benchmarks.pagerank_study import variants
from pipelines.graph import compute_pagerank
from pipelines.graph.random_graphs import RandomGraph
compute_pagerank(RandomGraph("rmat", 300, 8, 0))
""",
    "benchmarks.gpu.path_grid:ovo_6000": """
from benchmarks.grid_search.lines import make_problem
problem = make_problem("digits", Cs=[1.0], gammas=[0.01], n_folds=2, limit=99)
problem.data().scaled("cpu")
""",
    "benchmarks.gpu.nn_folds:compare_training": """
from benchmarks.bagging.lines import make_problem, train_plain, train_with_us
from pipelines.nn.settings import TrainingSettings
from pipelines.run.runners import InProcess
problem = make_problem(
    "digits", "study", 1, n_folds=2, limit=60, data_dir="", training=TrainingSettings(max_epochs=1)
)
train_with_us(problem, InProcess(1)), train_plain(problem, 1)
""",
    "tests/gpu/test_cuml_solver.py": """
from tests.gpu.test_cuml_solver import *
rows_of("sklearn", digits(), Cs=(1.0,), gammas=(1e-2,))
""",
    "benchmarks.gpu.cuml_fits:compare_fits": """
from benchmarks.gpu.cuml_fits import *
small_problem(None)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ON_A_CPU)
def test_a_check_names_all_that_it_needs(target, tmp_path):
    """On a machine that lacks one it is to be told as not run, not as failed."""
    (check,) = [entry for entry in CHECKS if entry.target == target]
    distributions = {
        module: {canonicalize_name(name) for name in names}
        for module, names in importlib.metadata.packages_distributions().items()
    }
    wanted = ["numpy", *(name for need in check.needs for name in distributions.get(need, ()))]
    for name in wanted:  # grows meanwhile
        for need in map(Requirement, importlib.metadata.requires(name) or ()):
            other = canonicalize_name(need.name)
            applies = need.marker is None or need.marker.evaluate({"extra": ""})
            if (
                applies
                and other not in wanted
                and any(other in names for names in distributions.values())
            ):
                wanted.append(other)
    absent = {module for module, names in distributions.items() if not names & set(wanted)}
    absent -= {"pipelines", "cluster_setup", "_distutils_hack"}
    write(tmp_path / "sitecustomize.py", ONLY_THESE)
    program = write(tmp_path / "on_a_cpu.py", ON_A_CPU[target])
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "ABSENT": " ".join(absent)}
    done = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_gpu_tests_take_no_fixtures():
    for path in (ROOT / "tests/gpu").glob("test_*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                assert not node.args.args, f"{path.name}: {node.name}"


def test_where_the_path_solver_is_tested_cuml_is_not_asked_for():
    for check in CHECKS:
        tests_cuml = "cuml" in check.target
        assert ("cuml" in check.needs) == tests_cuml, check.name


def test_all_checks_are_planned_to_end_in_time():
    assert sum(check.planned for check in CHECKS) <= 560 < gpu_check.SECONDS < 600
    assert all(check.limit == max(2 * check.planned, 120) for check in CHECKS)


def test_the_cheapest_proof_comes_first():
    launch, memcheck, racecheck, *remaining = CHECKS
    assert launch.target.endswith(":launch_kernels")
    names = [memcheck.name, racecheck.name]
    assert names == ["memcheck finds nothing", "racecheck finds nothing"]
    kinds = ["time" if check.name.startswith("time") else "results" for check in remaining]
    assert kinds[: kinds.index("time")] == ["results"] * 10
    sizes = [(d, n) for n in (6_000, 20_000, 60_000) for d in ("ovo", "ovr")]
    names = [check.name for check in remaining]
    places = [names.index(f"time of the study's grid, {d}, {n:,} rows") for d, n in sizes]
    assert places == sorted(places)


@pytest.mark.parametrize("status", [0, 9])
def test_what_the_sanitizer_finds_fails_a_check(status, monkeypatch, tmp_path):
    tool = write(tmp_path / "compute-sanitizer", f'#!/bin/sh\necho "$@"\nexit {status}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    figures.FIGURES.clear()
    if status:
        with pytest.raises(AssertionError, match="racecheck ended with status 9"):
            first_launches.find_races()
        return
    first_launches.find_memory_errors()
    (figure,) = figures.FIGURES
    assert figure.startswith("memcheck: --tool memcheck --report-api-errors no --error-exitcode 9 ")
    assert "launch_kernels()" in figure


def race(kernel, other):
    """Two lines, as racecheck writes them."""
    return (
        f"========= Warning: Race reported between Read access at {kernel}+0x4a0\n"
        f"=========     and Write access at {other}+0x670 [128 hazards]\n"
    )


@pytest.mark.parametrize(
    ("output", "passes"),
    [
        (race("cupy_nonzero", "cupy_nonzero") + first_launches.AGREED, True),
        (race("cupy_nonzero", "cupy_nonzero"), False),
        (race("cupy_sum", "cupy_sum") + race("walk", "walk") + first_launches.AGREED, False),
        (first_launches.AGREED, False),
    ],
    ids=["CuPy's", "not all launched", "ours too", "something else"],
)
def test_a_race_within_cupy_is_not_ours(output, passes, monkeypatch, tmp_path):
    (tmp_path / "said").write_text(output)
    tool = write(tmp_path / "compute-sanitizer", f"#!/bin/sh\ncat {tmp_path}/said\nexit 9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if passes:
        return first_launches.find_races()
    with pytest.raises(AssertionError, match="racecheck ended with status 9"):
        first_launches.find_races()


def test_without_the_sanitizer_it_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(unittest.SkipTest, match="compute-sanitizer is neither on PATH nor in"):
        first_launches.find_races()


def test_the_grid_is_timed_on_mnist_alone(monkeypatch):
    monkeypatch.delenv("PLEASINGLY_DATA_DIR", raising=False)
    with pytest.raises(unittest.SkipTest, match="needs MNIST"):
        path_grid.ovr_60000()


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_the_kernel_that_is_timed_is_compiled_before(decision, monkeypatch):
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
    from pipelines.svm.cuda import path
    from pipelines.svm.cuda.launches import Launching
    from pipelines.svm.search import search_folds
    from pipelines.svm.settings import Settings

    taken = []

    def solved(X, y, gammas, Cs, folds, *, decision, launching=None, phases=None):
        if launching is None:
            search, _ = search_folds(y, np.array([1.0]), folds, Settings(decision))
            launching = Launching.for_rows(path._largest_problem(search))
        taken.append(launching)
        return SimpleNamespace(n_errors=np.zeros((1, 1, 5)))

    monkeypatch.setenv("PLEASINGLY_DATA_DIR", "data")
    monkeypatch.setattr(path, "cross_validate_path_cuda", solved)
    make = path_grid.make_problem
    monkeypatch.setattr(path_grid, "make_problem", lambda _, **named: make("digits", **named))
    monkeypatch.setattr(FoldedData, "scaled", lambda *_: None)
    path_grid.time_grid(decision, 1_400)
    warm, timed = taken
    assert warm == timed


def test_a_check_that_is_not_there_is_one_line(capsys, tmp_path):
    assert gpu_check.main(["--only", "cuppy", "--results", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("gpu_check: --only must be part of a check's name, got 'cuppy'")


def test_the_command_runs_what_it_is_told_to(with_a_gpu, monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(gpu_check, "driver", lambda: Driver("580.1", "13.0"))
    monkeypatch.setattr(gpu_check, "carry_out", lambda checks, *_: ran.extend(checks) or [])
    assert gpu_check.main(["--only", "torch", "--results", str(tmp_path)]) == 0
    assert [check.target for check in ran] == ["tests/gpu/test_torch.py"]
    # The record of all checks of a day stays.
    assert list(tmp_path.glob("*-gpu-check-nvidia-example-1-torch.json"))


@pytest.mark.slow
def test_seconds_of_compiling_are_told_apart(with_a_gpu, tmp_path):
    source = (
        "import time\nimport numba\n"
        "from benchmarks.gpu.compiling import warming_up\n"
        "def test_one():\n"
        "    with warming_up():\n        time.sleep(0.3)\n"
        "    begun = time.perf_counter()\n"
        "    numba.njit(lambda x: x + 1)(1)\n"
        "    from benchmarks.gpu.figures import note\n"
        "    note(str(time.perf_counter() - begun))\n"
    )
    check = Check("compiles", str(write(tmp_path / "test_it.py", source)), ())
    (outcome,) = carried_out([check], 1000, tmp_path)
    assert outcome.status == PASSED, outcome.reason
    compiled = float(outcome.figure)
    assert 0.3 + 0.5 * compiled < outcome.compiled < 0.5 + compiled < outcome.seconds


def test_a_kernels_compilation_counts():
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
    code = (
        "from benchmarks.gpu.compiling import watch_numba\nfrom numba.cuda import dispatcher\n"
        "before = dispatcher.CUDADispatcher.compile\nwatch_numba()\n"
        "after = dispatcher.CUDADispatcher.compile\n"
        "assert after is not before and after.__wrapped__ is before\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch):
    def no_library(name):
        raise OSError(name)

    monkeypatch.setattr(device.ctypes, "CDLL", no_library)
    assert device.gpus() == []
    assert device.driver() == Driver(None, None)


@pytest.mark.slow
def test_checks_pass_fail_or_are_not_run(with_a_gpu, tmp_path):
    good = write(
        tmp_path / "test_good.py",
        "from benchmarks.gpu.figures import note\ndef test_one():\n    note('42 of them')\n",
    )
    bad = write(tmp_path / "test_bad.py", "def test_two():\n    assert 1 == 2\n")
    skipped = write(
        tmp_path / "test_skipped.py",
        "import unittest\ndef test_three():\n    raise unittest.SkipTest('needs two')\n",
    )
    table_of_checks = [
        Check("good", str(good), ()),
        Check("bad", str(bad), ()),
        Check("skipped", str(skipped), ()),
        Check("absent", str(good), ("nothing_a",)),
        Check("a benchmark", "benchmarks.machine:describe_machine", ()),
    ]
    lines = []
    outcomes = carried_out(table_of_checks, 1000, tmp_path, lines.append)
    statuses = [PASSED, FAILED, NOT_RUN, NOT_RUN, PASSED]
    assert [outcome.status for outcome in outcomes] == statuses
    assert outcomes[0].figure == "42 of them"
    assert "assert 1 == 2" in outcomes[1].reason
    assert "needs two" in outcomes[2].reason
    assert "nothing_a" in outcomes[3].reason
    assert len(lines) == len(outcomes) + 4  # what begins is told what it needs, but for the absent
    assert any("planned  good: needs a GPU" in line for line in lines)


BREAKS = {
    "segfault": "import ctypes\n    ctypes.string_at(0)",
    "exit": "import os\n    os._exit(7)",
    "hang": "import time\n    time.sleep(600)",
    # An error that stays with the process, as one of CUDA does.
    "sticky": "import builtins\n    builtins.broken = True\n    raise RuntimeError('illegal')",
}


@pytest.mark.slow
@pytest.mark.parametrize("broken", BREAKS)
def test_a_test_that_takes_its_process_along_costs_no_other(broken, with_a_gpu, tmp_path):
    path = write(
        tmp_path / "test_it.py",
        "import builtins\n"
        "def whole():\n    assert not hasattr(builtins, 'broken')\n"
        "def test_a(): whole()\n"
        f"def test_b():\n    {BREAKS[broken]}\n"
        "def test_c(): whole()\n"
        "def test_d(): whole()\n",
    )
    reports, seen = tmp_path / "reports", []
    check = Check("breaks", str(path), (), planned=5)
    load = carry_out.Report.load

    def loading(path):
        seen.append(load(path))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carry_out.Report, "load", loading)
        (outcome,) = carried_out([check], 1000, reports)
    assert outcome.status == FAILED
    assert outcome.reason.startswith("test_b: ")
    assert seen[-1].passed == ["test_a", "test_c", "test_d"]
    assert list(seen[-1].failed) == ["test_b"]
    assert not list(reports.iterdir())


@pytest.mark.slow
def test_a_check_is_ended_in_time(with_a_gpu, tmp_path):
    slow = write(tmp_path / "test_slow.py", "import time\ndef test_slow():\n    time.sleep(600)\n")
    first, second = carried_out(
        [Check("slow", str(slow), ()), Check("later", str(slow), ())], 5, tmp_path
    )
    assert first.status == FAILED
    assert "not done within" in first.reason
    assert second.status == NOT_RUN
    assert "its turn did not come" in second.reason


def test_a_check_needs_nothing_that_only_other_tests_import(with_a_gpu, monkeypatch, tmp_path):
    write(tmp_path / "hypothesis.py", "raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(
        "PYTEST_ADDOPTS", "-p no:hypothesispytest"
    )  # a plugin comes and goes with it
    (outcome,) = carried_out([Check("one", "tests/gpu/test_cupy.py", ())], 1000, tmp_path / "left")
    assert outcome.status == NOT_RUN, outcome.reason
    assert outcome.reason.startswith("test_")  # it came to the tests
    assert "needs a GPU" in outcome.reason


def test_what_keeps_a_check_from_its_tests_is_told_in_its_own_words(with_a_gpu, tmp_path):
    write(tmp_path / "conftest.py", "raise ImportError('no such library')\n")
    path = write(tmp_path / "test_it.py", "def test_it(): pass\n")
    (outcome,) = carried_out([Check("one", str(path), ())], 1000, tmp_path / "left")
    assert outcome.status == FAILED
    assert "ImportError: no such library" in outcome.reason


def test_what_has_passed_is_kept_after_every_check_and_not_run_again(
    with_a_gpu, monkeypatch, tmp_path
):
    first_check, second_check = (
        Check("one", "tests/gpu/x.py", ()),
        Check("two", "tests/gpu/y.py", ()),
    )
    monkeypatch.setattr(gpu_check, "CHECKS", [first_check, second_check])
    monkeypatch.setattr(gpu_check, "driver", lambda: Driver("580.1", "13.0"))
    names_by_run, reports = [], []

    def interrupted(checks, seconds, folder):
        names_by_run.append([check.name for check in checks])
        reports.append(folder.exists())
        for check in checks:
            yield Outcome(check, BEGUN, reason="its tests so far are in y.json")
            if check == second_check and len(names_by_run) == 1:
                folder.mkdir()
                raise KeyboardInterrupt
            yield Outcome(check, PASSED, 1.0, figure="7 GB/s")

    monkeypatch.setattr(gpu_check, "carry_out", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gpu_check.main(["--results", str(tmp_path)])
    (path,) = tmp_path.glob("*.json")
    kept = {line["check"]: line["result"] for line in json.loads(path.read_text())["checks"]}
    assert kept == {"one": PASSED, "two": BEGUN}
    assert "begun: its tests so far are in y.json" in path.with_suffix(".md").read_text()
    assert gpu_check.main(["--results", str(tmp_path), "--resume"]) == 0
    checks_kept = json.loads(path.read_text())["checks"]
    assert [check["figure"] for check in checks_kept] == ["7 GB/s", "7 GB/s"]
    (tmp_path / "gpu-check-nvidia-example-1-running").mkdir()
    assert gpu_check.main(["--results", str(tmp_path)]) == 0  # anew: no test was run before
    assert names_by_run == [["one", "two"], ["two"], ["one", "two"]]
    assert reports == [False, True, False]


def test_tests_run_without_pytest(tmp_path):
    path = write(
        tmp_path / "test_plain.py",
        "import unittest\n"
        "def helper(): raise RuntimeError\n"
        "def test_a(): pass\n"
        "def test_b(): assert not 'so'\n"
        "def test_c(): raise unittest.SkipTest('why')\n",
    )
    report = child.Report()
    child.call_tests(report, path)
    assert not report.finished  # the rest is for another process
    child.call_tests(report, path)
    assert report.finished
    assert report.passed == ["test_a"]
    assert report.skipped == {"test_c": "why"}
    assert "AssertionError" in report.failed["test_b"]


def test_the_table_tells_every_outcome():
    check = Check("a check", "tests/gpu/test_a.py", ("cupy",))
    outcomes = [
        Outcome(check, PASSED, 1.26, 0.52, "7 GB/s"),
        Outcome(check, FAILED, 2.0, reason=f"{ROOT}/tests/gpu/test_a.py:3: wrong"),
        Outcome(check, NOT_RUN, reason="needs cupy, not installed here"),
    ]
    record = describe(outcomes, ONE_GPU, Driver("580.1", "13.0"), "2026-01-02")
    lines = table(record).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert cells == [
        ["a check", "a GPU, cupy", "passed", "10 s", "1.3", "0.5", "7 GB/s"],
        ["a check", "a GPU, cupy", "failed", "10 s", "2.0", "0.0", ""],
        [
            "a check",
            "a GPU, cupy",
            "not run: needs cupy, not installed here",
            "10 s",
            "0.0",
            "0.0",
            "",
        ],
    ]
    text = page(record)
    assert "NVIDIA Example 1 (81920 MiB); driver 580.1, CUDA up to 13.0" in text
    assert "./tests/gpu/test_a.py:3: wrong" in text
    assert str(ROOT) not in json.dumps(record)


def test_the_command_keeps_what_it_found(with_a_gpu, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gpu_check, "CHECKS", [Check("absent", "tests/gpu/x.py", ("nothing_a",))])
    monkeypatch.setattr(gpu_check, "driver", lambda: Driver("580.1", "13.0"))
    assert gpu_check.main(["--results", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("????-??-??-gpu-check-nvidia-example-1.json")
    record = json.loads(path.read_text())
    assert record["gpus"] == [{"name": "NVIDIA Example 1", "memory_mib": 81920}]
    assert record["checks"][0]["result"] == NOT_RUN
    assert path.with_suffix(".md").exists()
    assert "0 passed, 0 failed, 1 not run" in capsys.readouterr().out


def test_a_failed_check_is_an_exit_status(with_a_gpu, monkeypatch, tmp_path, capsys):
    outcome = Outcome(CHECKS[0], FAILED, 1.0, reason="wrong by 3")
    monkeypatch.setattr(gpu_check, "carry_out", lambda *_: [outcome])
    assert gpu_check.main(["--results", str(tmp_path)]) == 1
    assert "wrong by 3" in capsys.readouterr().err


def test_the_fit_benchmark_counts_fits():
    problem = cuml_fits.small_problem(None)
    small = cuml_fits.Problem(problem.dataset, problem.folds, (10.0,), (1e-2,))
    errors = cuml_fits.fit_cells(small, "sklearn")
    assert list(errors) == [(10.0, 1e-2, 0)]
    text = cuml_fits.sentence(
        small, Timed("cuml", (1.0, 2.0), errors), Timed("sklearn", (4.0, 4.0), errors)
    )
    assert "cuml 1.5 s" in text
    assert "2.7 × (2.0 to 4.0)" in text
    assert "at most 0 rows" in text


@pytest.mark.slow
def test_both_jobs_are_timed_by_formation():
    figures.FIGURES.clear()
    formations.time_formations("threads", most=2, limit=200)
    share = r"\(\d+%\)"
    for job, figure in zip(("svm_grid", "nn_bagging"), figures.FIGURES, strict=True):
        assert re.fullmatch(
            rf"{job}, 16 tasks: 1x1 [\d.]+ s \(100%\), 1x2 [\d.]+ s {share}", figure
        )
