"""Run the scripts and write a table; see the package's docstring."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, stamped
from benchmarks.scripts.comparison import compare, searches_in_words
from benchmarks.scripts.page import line_of, page
from benchmarks.scripts.runs import ACCELERATED, PLAIN, Run, run_script
from benchmarks.scripts.sources import LEFT_OUT, SCRIPTS, Script, clone_line
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.scripts"


def main(argv: Sequence[str] | None = None) -> int:
    """Run them all; give the exit status: 0, 1 where results differ or fail, 2 for bad input."""
    bad: list[str] = []
    status = exit_status(COMMAND, lambda: bad.extend(_run(_parser().parse_args(argv))))
    for line in bad:
        print(line, file=sys.stderr)
    return status or (1 if bad else 0)


def _parser() -> OneLineParser:
    import benchmarks.scripts

    about = benchmarks.scripts.__doc__
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=about)
    add = parser.add_argument
    add("--from", dest="folder", type=Path, metavar="DIR", help="where the checkouts lie")
    add("--script", action="append", metavar="TEXT", help="part of its name; default: all")
    add("--list", action="store_true", help="name the scripts and where they come from")
    add_count(parser, "--repeat", 2, "turns of a script")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> list[str]:
    texts = options.script or [""]
    scripts = [script for script in SCRIPTS if any(text in script.name for text in texts)]
    if options.list:
        print("\n".join(_listed(scripts)))
        return []
    _check(scripts, options)
    lines = []
    for script in scripts:
        lines.append(measure(script, options.folder, options.repeat))
        print(line_of(lines[-1]), flush=True)
    record = stamped("scripts", repeat=options.repeat, lines=lines, left_out=LEFT_OUT)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'scripts', record, text)}")
    return [
        f"{line['script']}: {line['results']} {line['says']}".strip()
        for line in lines
        if not line["agrees"]
    ]


def _listed(scripts: Sequence[Script]) -> list[str]:
    """Names of the scripts below the commands that bring them here."""
    clones = dict.fromkeys(clone_line(script.repository) for script in scripts)
    return [*clones, "", *(script.name for script in scripts)]


def _check(scripts: Sequence[Script], options: argparse.Namespace) -> None:
    """Refuse to begin where a script is missing."""
    if options.folder is None:
        raise InputError("--from must name the folder of the checkouts; --list says which")
    if not scripts:
        raise InputError(f"no script has {options.script} in its name; --list names them")
    for script in scripts:
        for path in (script.checkout_path, *script.addresses.values()):
            if not (options.folder / path).exists():
                raise InputError(f"{options.folder / path} is missing; --list says what to clone")


def measure(script: Script, folder: Path, repeat: int) -> dict[str, Any]:
    """Run a script in turns, plain and accelerated.

    Returns
    -------
    dict
        ``script``, ``searches`` in words, ``plain`` and ``accelerated`` with the CPU seconds of
        each turn, ``whole`` and ``inside`` with the ratios of the fastest turns (None where a
        run failed or searched nothing), ``agreement`` of the accelerated runs with the plain
        ones, ``repeatable``: whether plain runs agree with each other, ``agrees``, ``results``
        in words, and what a failed run ``says``.
    """
    turns = [
        (run_script(script, folder, PLAIN), run_script(script, folder, ACCELERATED))
        for _ in range(repeat)
    ]
    plain, accelerated = [turn[0] for turn in turns], [turn[1] for turn in turns]
    first = plain[0].searches
    repeatable = all(compare(first, run.searches).equal for run in plain[1:])
    agreements = [compare(*(run.searches for run in turn)) for turn in turns]
    worst = max(agreements, key=lambda agreement: agreement.rank)
    failed = next((run for run in (*plain, *accelerated) if run.status), None)
    compared = failed is None and all(run.searches for run in (*plain, *accelerated))
    return {
        "script": script.name,
        "searches": searches_in_words(first),
        "plain": _seconds(plain),
        "accelerated": _seconds(accelerated),
        "whole": _fastest(plain) / _fastest(accelerated) if compared else None,
        "inside": _fastest(plain, True) / _fastest(accelerated, True) if compared else None,
        "agreement": asdict(worst),
        "repeatable": repeatable,
        "agrees": failed is None and (worst.close or not repeatable),
        "results": "failed" if failed else ("" if repeatable else "seedless: ") + worst.in_words(),
        "says": failed.says.strip().split("\n")[-1] if failed else "",
    }


def _fastest(runs: Sequence[Run], inside: bool = False) -> float:
    """The least CPU seconds of a turn, of the whole script or ``inside`` its searches."""
    return min(run.search_seconds if inside else run.seconds for run in runs)


def _seconds(runs: Sequence[Run]) -> dict[str, list[float]]:
    return {
        "whole": [round(run.seconds, 2) for run in runs],
        "searches": [round(run.search_seconds, 3) for run in runs],
    }


if __name__ == "__main__":
    sys.exit(main())
