"""scikit-learn's own tests, on our estimators: ``python -m benchmarks.peer_suites``.

The tests of ``SVC`` and of ``GridSearchCV`` that the installed scikit-learn brings are run with
``PathSVC`` and ``SVMGridSearch`` in their place, those of ``GridSearchCV`` once more with
``GridSearch``. What is left is listed, each with why; a failure that the list does not know ends
with status 1.

Those of all searches and of cross-validation are run with nothing replaced, under the joblib
backend on which searches share their work, and, where one fails, without it: a failure that this
plain run has not ends with status 1, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.peers.left import REASONS, reason_of
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.peer_suites"
BACKEND, NOTHING = "backend", "nothing"
FAILS_PLAIN = "it fails in a plain run, too"
TESTS = "sklearn.model_selection.tests"
# The module of each suite, and what is replaced in it.
SUITES = {
    "svm": ("sklearn.svm.tests.test_svm", "SVC"),
    "search": (f"{TESTS}.test_search", "SVC"),
    "grid_search": (f"{TESTS}.test_search", "GridSearch"),
    "backend": (f"{TESTS}.test_search", BACKEND),
    "backend_halving": (f"{TESTS}.test_successive_halving", BACKEND),
    "backend_validation": (f"{TESTS}.test_validation", BACKEND),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suites; give the exit status: 0, 1 for an unknown failure, 2 for bad input."""
    unknown: list[str] = []
    status = exit_status(COMMAND, lambda: unknown.extend(_run(_parser().parse_args(argv))))
    for line in unknown:
        print(f"not on the list: {line}", file=sys.stderr)
    return status or (1 if unknown else 0)


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add = parser.add_argument
    add("--suite", action="append", choices=tuple(SUITES), help="default: all")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> list[str]:
    suites, fail_plain = dict[str, Any](), dict[str, list[str]]()
    for name in options.suite or SUITES:
        module, replaces = SUITES[name]
        suites[name] = run_suite(module, replaces)
        if replaces == BACKEND:
            plain = run_suite(module, NOTHING) if failures(suites[name]) else []
            fail_plain[name] = [outcome["test"] for outcome in failures(plain)]
    record = stamped("peer_suites", suites=suites, fail_plain=fail_plain)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'peer-suites', record, text)}")
    return [
        f"{name}: {outcome['test']}: {outcome['says']}"
        for name, outcomes in suites.items()
        for outcome in failures(outcomes)
        if why_left(outcome["test"], fail_plain.get(name)) is None
    ]


def why_left(test: str, fail_plain: Sequence[str] | None) -> str | None:
    """Why a test may fail; None for one that may not.

    Parameters
    ----------
    fail_plain : tests that fail without the backend, too, where nothing is replaced
    """
    if fail_plain is None:
        return reason_of(test)
    return FAILS_PLAIN if test in fail_plain else None


def run_suite(module: str, replaces: str = "SVC") -> list[dict[str, Any]]:
    """What became of each test of a module of scikit-learn's.

    Parameters
    ----------
    module : its name
    replaces : {"SVC", "GridSearch", "backend", "nothing"}
        Whether ``SVC`` and the searches of it are ours, or every ``GridSearchCV``; or the backend
        of joblib is, or nothing.

    Returns
    -------
    list of dict with ``test``, ``outcome``, ``uses``: ours that it made or met, and ``says``
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcomes.json"
        here = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "benchmarks.peers.plugin",
                "-p",
                "no:cacheprovider",
                "-q",
                "--tb=no",
                "-W",
                "ignore",
                "--pyargs",
                module,
            ],
            env={
                **os.environ,
                "PEER_SUITE_RESULTS": str(path),
                "PEER_SUITE_REPLACES": replaces,
                "PYTHONPATH": here,
            },
            cwd=folder,
            check=False,
        )
        outcomes: list[dict[str, Any]] = json.loads(path.read_text())
    return outcomes


def failures(outcomes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tests that did not pass."""
    return [outcome for outcome in outcomes if outcome["outcome"] == "failed"]


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    counts, left_out = [], []
    for name, outcomes in record["suites"].items():
        ours = [outcome for outcome in outcomes if outcome["uses"]]
        failed = failures(outcomes)
        counts.append(
            [
                *SUITES[name],
                *map(str, (len(outcomes), len(ours), len(outcomes) - len(failed), len(failed))),
            ]
        )
        for outcome in failed:
            why = why_left(outcome["test"], record.get("fail_plain", {}).get(name))
            left_out.append(
                [outcome["test"], "not on the list" if why is None else why, outcome["says"]]
            )
    table = markdown_table(
        ["module", "replaced", "tests", "with ours", "passed or skipped", "left"], counts
    )
    return (
        f"# scikit-learn's own tests on our estimators, {record['date']}\n\n"
        f"scikit-learn {record['versions'].get('scikit-learn', '?')}, its tests as installed, with "
        "`PathSVC` for `SVC` and `SVMGridSearch` for a `GridSearchCV` of it, or `GridSearch` for "
        "every `GridSearchCV`; tests of other estimators run as they are. With the backend, then "
        "joblib's default, no class is replaced; what a plain run fails, too, is none of its "
        "failures.\n\n"
        f"{table}\n\n## What is left\n\n"
        f"{markdown_table(['test', 'why', 'it says'], left_out) if left_out else 'Nothing.'}\n\n"
        + "".join(f"- **{name}**: {about}\n" for name, about in REASONS.items())
        + f"\n{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
