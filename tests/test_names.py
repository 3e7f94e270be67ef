"""Names say what a thing is: no pronoun or participle stands alone as one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("pipelines", "cluster_setup", "benchmarks", "tests")
WORDS = {
    "asked",
    "each",
    "found",
    "given",
    "gone",
    "known",
    "left",
    "made",
    "many",
    "more",
    "one",
    "others",
    "own",
    "place",
    "said",
    "some",
    "there",
    "told",
}
# A verb: the task that puts rows in device memory, and the field that names it.
EXCEPTIONS = {
    ("pipelines/data/placement.py", "place"),
    ("pipelines/run/runners.py", "place"),
    ("benchmarks/shifted_fits.py", "one"),  # the key of records that are kept
}
# What every package of commands has: the contract by which the program finds it.
OF_EVERY_COMMAND = {"Options", "main"}
OF_EVERY_CLUSTER = {"open_client", "refuse", "job_script"}


def modules(*rooms):
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def names_in(tree):
    """Every name that a module binds or uses, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno


def test_no_pronoun_or_participle_stands_alone_as_a_name():
    offences = [
        f"{path}:{line} {name}"
        for path, tree in modules(*ROOMS)
        for name, line in names_in(tree)
        if name.strip("_") in WORDS and (path, name) not in EXCEPTIONS
    ]
    assert not offences


def test_every_exception_is_needed():
    used = {(path, name) for path, tree in modules(*ROOMS) for name, _ in names_in(tree)}
    assert used >= EXCEPTIONS


def test_a_public_name_stands_for_one_thing():
    files = defaultdict(list)
    for path, tree in modules("pipelines", "cluster_setup"):
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(path)
    several = {name: paths for name, paths in files.items() if len(paths) > 1}
    assert several.keys() <= OF_EVERY_COMMAND | OF_EVERY_CLUSTER, several


def test_tests_carry_no_types():
    functions = (
        (path, node)
        for path, tree in modules("tests")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    typed = [
        f"{path}:{function.lineno} {function.name}"
        for path, function in functions
        if function.returns
        or any(
            argument.annotation
            for argument in ast.walk(function.args)
            if isinstance(argument, ast.arg)
        )
    ]
    assert not typed
