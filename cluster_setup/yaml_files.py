"""Files of YAML 1.2: profiles of queues, grids and spaces of candidates.

In 1.2 ``1e3`` and ``010`` are the numbers 1000 and 10, and ``1:30`` and ``yes`` are text.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any


def read_yaml(path: Path) -> Any:
    """Read a file of one document, of plain values and collections.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is no YAML, names a key twice, or holds an alias within its own anchor; the message is
        one line, with the number of the file's.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MantissaNoDotYAML1_1Warning, YAMLError

    text = path.read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MantissaNoDotYAML1_1Warning)  # 1e3 of a %YAML 1.1
        try:
            content = YAML(typ="safe", pure=True).load(text)
            _check_ends(content)
        except RecursionError:
            raise ValueError("its values lie too deep in one another") from None
        except YAMLError as error:
            place = getattr(error, "problem_mark", None)
            why = getattr(error, "problem", None) or str(error)
            line = f"line {place.line + 1}: " if place else ""
            raise ValueError(line + " ".join(why.partition(" with value")[0].split())) from None
    return content


def _check_ends(content: Any, above: tuple[int, ...] = (), done: set[int] | None = None) -> None:
    """Refuse a collection that lies within itself; one that stands twice is looked at once."""
    done = set() if done is None else done
    if id(content) in above:
        raise ValueError("an alias lies within its own anchor")
    if not isinstance(content, dict | list) or id(content) in done:
        return
    for value in content.values() if isinstance(content, dict) else content:
        _check_ends(value, (*above, id(content)), done)
    done.add(id(content))
