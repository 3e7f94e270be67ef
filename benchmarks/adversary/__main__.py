"""Run the cases and write a table by kind; see the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from benchmarks.adversary import arrays, edges, faults, folders, settings, tables
from benchmarks.adversary.case import VERDICTS, Case, Sandbox, Verdict, judge

# 300 inputs and 60 faults; each seed draws others of a kind's cases.
SAMPLE = {
    "faults": 60,
    "folders": 40,
    "tables": 45,
    "arrays": 35,
    "edges": 35,
    "options": 40,
    "yaml": 18,
    "objects": 17,
    "images": 15,
    "calls": 55,
}
N_CALLS = 271
ROOT = Path(__file__).parents[2]
Build = Callable[[Sandbox], Case | Verdict]


@dataclass(frozen=True)
class Result:
    kind: str
    number: int
    name: str
    verdict: Verdict
    command: str
    seconds: float


def kinds(seed: int) -> dict[str, list[tuple[str, Build]]]:
    """The cases of each kind, by name; those of ``calls`` are run elsewhere."""
    rows, drawn = tables.clean(seed), edges.drawn(seed)
    return {
        "faults": list(faults.FAULTS.items()),
        "folders": list(folders.FOLDERS.items()),
        "tables": [(n, _table(make, rows)) for n, make in tables.BUILDERS.items()],
        "arrays": list(arrays.ARRAYS.items()),
        "edges": [(n, _edges(make, drawn)) for n, make in edges.EDGES.items()],
        "options": list(settings.OPTIONS.items()),
        "yaml": list(settings.YAML.items()),
        "objects": list(settings.OBJECTS.items()),
        "images": list(settings.IMAGES.items()),
    }


def _table(make: Callable[[Sandbox, tables.Rows], tables.Variant], rows: tables.Rows) -> Build:
    return lambda sandbox: tables.case_of(sandbox, make(sandbox, rows))


def _edges(make: edges.Make, drawn: edges.Edges) -> Build:
    return lambda sandbox: make(sandbox, drawn)


def try_case(sandbox: Sandbox, name: str, build: Build) -> Result:
    """Build a case, run it and keep its folder only if it did not hold."""
    began, command = time.monotonic(), ""
    try:
        case = build(sandbox)
        if isinstance(case, Verdict):
            verdict = case
        else:
            command = " ".join(case.argv)
            verdict = judge(sandbox, case)
    except Exception as error:
        verdict = Verdict("untried", repr(error)[:400])
    if verdict.kind == "held":
        shutil.rmtree(sandbox.folder, ignore_errors=True)
    seconds = time.monotonic() - began
    return Result(sandbox.kind, sandbox.number, name, verdict, command, seconds)


def try_calls(tree: Path, seed: int, numbers: Sequence[int]) -> Iterator[Result]:
    """All calls in one process; another goes on after one that fell or hung."""
    env = {**os.environ, "PYTHONPATH": f"{tree}:{ROOT}", "OMP_NUM_THREADS": "1"}
    names = _call_names(env)
    remaining = [number for number in numbers if number < len(names)]
    # A folder's benchmarks would hide ours: the module is given as a file.
    while remaining:
        argv = [
            sys.executable,
            str(Path(__file__).with_name("calls.py")),
            str(seed),
            *map(str, remaining),
        ]
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            number, *words = json.loads(line)
            if words == ["began"]:
                remaining.remove(number)
                current, began = number, time.monotonic()
                continue
            command = f"PYTHONPATH={tree} python {argv[1]} {seed} {number}"
            yield Result(
                "calls", number, names[number], Verdict(*words), command, time.monotonic() - began
            )
            current = -1
        if process.wait() and current >= 0:
            died = Verdict("traceback", f"the process died: {process.returncode}")
            yield Result("calls", current, names[current], died, "", 0)


def _call_names(env: dict[str, str]) -> list[str]:
    path = str(Path(__file__).with_name("calls.py"))
    code = f"import json, runpy; print(json.dumps(list(runpy.run_path({path!r})['CALLS'])))"
    return list(json.loads(subprocess.check_output([sys.executable, "-c", code], env=env)))


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 1 if a case did not hold."""
    options = _parser().parse_args(argv)
    tree = Path(options.tree).resolve()
    all_kinds = kinds(options.seed)
    chosen = options.only or [*all_kinds, "calls"]
    numbers = {}
    for kind in chosen:
        n = len(all_kinds[kind]) if kind in all_kinds else N_CALLS
        size = n if options.all else min(n, options.sample or SAMPLE[kind])
        # A draw of its own, so that --only tries the cases that the whole would.
        draw = random.Random(f"{options.seed} {kind}")
        numbers[kind] = options.number or sorted(draw.sample(range(n), size))
    root = Path(tempfile.mkdtemp(prefix="adversary-", dir=options.folder))
    results: list[Result] = []

    def keep(result: Result) -> None:
        results.append(result)
        if result.verdict.kind != "held":
            case = f"{result.kind} {result.number} ({result.name})"
            print(f"{case}: {result.verdict.kind}: {result.verdict.detail}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        waiting = [
            pool.submit(try_case, Sandbox(root, tree, kind, number, options.seed), name, build)
            for kind in chosen
            if kind != "calls"
            for number, (name, build) in enumerate(all_kinds[kind])
            if number in numbers[kind]
        ]
        if "calls" in chosen:
            for result in try_calls(tree, options.seed, numbers["calls"]):
                keep(result)
        for future in as_completed(waiting):
            keep(future.result())
    text = report(results, options.seed, tree, root)
    print(text)
    if options.results:
        Path(options.results).write_text(text)
    return 0 if all(result.verdict.kind == "held" for result in results) else 1


def report(results: list[Result], seed: int, tree: Path, root: Path) -> str:
    """Markdown: counts by kind, then every case that did not hold."""
    commit = subprocess.run(
        ["git", "-C", str(tree), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True
    )
    heads = [*VERDICTS, "untried"]
    lines = [f"# Adversary, seed {seed}, commit {commit.stdout.strip()}", ""]
    lines += ["| kind | tried | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for kind in [*dict.fromkeys(result.kind for result in results), "all"]:
        part = [result for result in results if kind in (result.kind, "all")]
        count = Counter(result.verdict.kind for result in part)
        lines.append(
            f"| {kind} | {len(part)} | " + " | ".join(str(count[head]) for head in heads) + " |"
        )
    lines += ["", "| case | name | verdict | what | command |", "|---|---|---|---|---|"]
    for result in sorted(results, key=lambda r: (r.kind, r.number)):
        if result.verdict.kind != "held":
            detail = result.verdict.detail.replace("|", "/").replace("\n", " ")
            command = (
                result.command.replace(str(root), "ROOT").replace("\n", "\\n").replace("|", "/")
            )
            cells = (f"{result.kind} {result.number}", result.name, result.verdict.kind, detail)
            lines.append(f"| {' | '.join(cells)} | `{command[:300]}` |")
    seconds = sum(result.seconds for result in results)
    return "\n".join(
        [*lines, "", f"{seconds:.0f} s of cases; those that did not hold are in {root.name}.", ""]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adversary", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, default=1, metavar="N", help="default: 1")
    add("--only", action="append", metavar="KIND", help="this kind alone; may be repeated")
    add("--sample", type=int, metavar="N", help="N cases of each kind (default: 360 of all)")
    add("--all", action="store_true", help="every case of each kind")
    add("--number", action="append", type=int, metavar="N", help="this case of the kind alone")
    add(
        "--tree",
        default=str(ROOT),
        metavar="FOLDER",
        help="whose program is tried (default: this one)",
    )
    add("--jobs", type=int, default=2, metavar="N", help="so many at a time (default: 2)")
    add("--folder", metavar="DIR", help="where cases are built (default: that of temporary files)")
    add("--results", metavar="FILE.md", help="where the table is written, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
