"""Candidates: values of parameters, as they are typed or in files."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pipelines.data.user_files import read_yaml
from pipelines.errors import InputError, opt

WORDS = {"none": None, "null": None, "true": True, "false": False}
# What ``cross_validate`` compares where no estimator is named.
USUAL = {"classification": ("logistic", "knn", "forest", "boosting", "svm"),
         "regression": ("ridge", "knn", "forest", "boosting", "svm")}  # fmt: skip
LABEL = ":"  # between the estimator and the name of a parameter

Grid = dict[str, list[Any]]


@dataclass(frozen=True)
class Candidate:
    """A setting of the hyper-parameters of one algorithm.

    Attributes
    ----------
    algorithm : str, as it was named
    parameters : dict
    estimator : unfitted, with these parameters; perhaps a pipeline
    """

    algorithm: str
    parameters: Mapping[str, Any]
    estimator: Any

    @property
    def final(self) -> Any:
        """The last step of a pipeline; of what is none, the estimator itself."""
        is_pipeline = type(self.estimator).__name__ == "Pipeline"
        return self.estimator.steps[-1][1] if is_pipeline else self.estimator

    @property
    def text(self) -> str:
        """The parameters as JSON, which is how a row has them."""
        return json.dumps(dict(self.parameters), default=str)


def candidates_of(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of values; the last parameter varies the fastest."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def with_labels(argv: Sequence[str]) -> list[str]:
    """Return a command line whose ``--param`` say which ``--estimator`` they are of.

    >>> with_labels(["--estimator", "knn", "--param", "n_neighbors=1,3"])
    ['--estimator', 'knn', '--param', 'knn:n_neighbors=1,3']
    """
    arguments, last, flag = [], "", ""
    for word in argv:
        head, value = "", word
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            head = flag + equals
        if head == flag:  # its values follow
            pass
        elif flag == "--estimator":
            last = value
        elif flag == "--param":
            named = LABEL in value.partition("=")[0]
            value = value if named or not last else f"{last}{LABEL}{value}"
        elif flag == "--cv":
            # FILE.py:function, which is to be found when the run is resumed from another folder.
            path, colon, function = value.rpartition(":")
            if colon and path.endswith(".py"):
                value = f"{os.path.abspath(path)}:{function}"
        arguments.append(head + value)
    return arguments


def read_params(texts: Sequence[str], labels: Sequence[str]) -> dict[str, Grid]:
    """Parse the ``--param`` options into parameter grids, one for each estimator.

    Raises
    ------
    InputError
        It cannot be read, or is of none of these estimators.
    """
    grids: dict[str, Grid] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        label, colon, name = name.rpartition(LABEL)
        if not equals or not name or not values:
            raise InputError(
                f"{opt('param')} must be NAME=VALUE[,VALUE...], got {text!r}; for instance "
                f"n_estimators=100,300"
            )
        if not colon:
            raise InputError(
                f"{opt('param')} must follow the {opt('estimator')} it is of, got {text!r} before "
                f"any; change their order"
            )
        if label not in labels:
            raise InputError(
                f"{opt('param')} must be of an estimator of this run, got {text!r}; there are "
                f"{', '.join(labels)}"
            )
        grids.setdefault(label, {})[name] = [_value(one) for one in _split(values)]
    return grids


def _split(text: str) -> list[str]:
    """Split a text at commas that are not inside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def read_grid(path: str) -> dict[str, Grid]:
    """Return the grids of a YAML file: ``estimator: {parameter: value or [value, ...]}``.

    Raises
    ------
    InputError
        It cannot be read, or is of another form.
    """
    content = read_yaml(path, f"{opt('grid')} must be")
    form = "estimator: {parameter: [value, ...]}"
    if not isinstance(content, dict) or not content:
        raise InputError(f"{opt('grid')} must hold {form}, got {path}; write it so")
    grids: dict[str, Grid] = {}
    for label, grid in content.items():
        if grid is not None and not isinstance(grid, dict):
            raise InputError(
                f"{opt('grid')} must hold {form}, got {grid!r} for {label} in {path}; write it so"
            )
        grids[str(label)] = {
            str(name): list(values) if isinstance(values, list) else [values]
            for name, values in (grid or {}).items()
        }
        for name, values in grids[str(label)].items():
            if not values:
                raise InputError(
                    f"{opt('grid')} must give each parameter a value, got none for {label} {name} "
                    f"in {path}; leave it out"
                )
    return grids
