"""Read YAML 1.2: profiles of queues, grids and search spaces.

In YAML 1.2 ``1e3`` and ``010`` are the numbers 1000 and 10, and ``1:30`` is text. So is ``no``,
which was false in YAML 1.1: as a text it is true in Python, so that it is refused without quotes.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

BOOLEANS_BEFORE = ("yes", "no", "on", "off")  # of YAML 1.1


def read_yaml(path: Path) -> Any:
    """Read a file of one document, of plain values and collections.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is no YAML, names a key twice, holds an alias within its own anchor, or ``yes``, ``no``,
        ``on`` or ``off`` without quotes; the message is one line, with the line number.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import ConstructorError, SafeConstructor
    from ruamel.yaml.error import MantissaNoDotYAML1_1Warning, YAMLError

    class Constructor(SafeConstructor):
        """Refuses the booleans of YAML 1.1."""

    def text_of(constructor: Any, node: Any) -> Any:
        if node.style is None and node.value.lower() in BOOLEANS_BEFORE:
            why = f"{node.value} is text in YAML 1.2: write true or false, or '{node.value}'"
            raise ConstructorError(None, None, why, node.start_mark)
        return constructor.construct_scalar(node)

    Constructor.add_constructor("tag:yaml.org,2002:str", text_of)
    text, reader = path.read_text(encoding="utf-8"), YAML(typ="safe", pure=True)
    reader.Constructor = Constructor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MantissaNoDotYAML1_1Warning)  # 1e3 of a %YAML 1.1
        try:
            content = reader.load(text)
            _check_ends(content)
        except RecursionError:
            raise ValueError("its values lie too deep in one another") from None
        except YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            why = getattr(error, "problem", None) or str(error)
            line = f"line {mark.line + 1}: " if mark else ""
            raise ValueError(line + " ".join(why.partition(" with value")[0].split())) from None
    return content


def _check_ends(
    content: Any, ancestors: tuple[int, ...] = (), visited: set[int] | None = None
) -> None:
    """Refuse a collection that contains itself; one that occurs twice is checked once."""
    visited = set() if visited is None else visited
    if id(content) in ancestors:
        raise ValueError("an alias lies within its own anchor")
    if not isinstance(content, dict | list) or id(content) in visited:
        return
    for value in content.values() if isinstance(content, dict) else content:
        _check_ends(value, (*ancestors, id(content)), visited)
    visited.add(id(content))
