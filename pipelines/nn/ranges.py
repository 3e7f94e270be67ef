"""Ranges of hyper-parameters, and the YAML files that hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.user_files import read_yaml
from pipelines.errors import InputError, opt


@dataclass(frozen=True)
class Range:
    """Bounds of a uniform draw, both included; of log10 of the value where ``log10`` is true."""

    low: float
    high: float
    log10: bool = False
    whole: bool = False

    @classmethod
    def of(
        cls, name: str, value: Any, where: str, limits: tuple[float, float], whole: bool = False
    ) -> Range:
        """Return the range that a file says of the hyper-parameter ``name``.

        Parameters
        ----------
        value : a number, ``[low, high]``, or, of one that is no whole number,
            ``{log10: [low, high]}``
        where : str
            Begins the message of an error.
        limits : (least, most); beyond, a number is a slip of the pen

        Raises
        ------
        InputError
            The value is no range.
        """
        log = "" if whole else " or {log10: [...]}"
        form = f"a {'whole ' * whole}number{', ' if log else ' or '}[low, high]{log}"
        refusal = InputError(f"{where}: {name} must be {form}, got {value!r}")
        log10 = isinstance(value, Mapping) and list(value) == ["log10"] and not whole
        pair = value["log10"] if log10 else value
        pair = pair if isinstance(pair, list) else [pair, pair]
        if len(pair) != 2 or not all(_is_number(one, whole) for one in pair):
            raise refusal
        span = cls(pair[0], pair[1], log10, whole)
        if span.low > span.high:
            raise InputError(f"{where}: {name} must have low <= high, got {pair}; swap them")
        try:
            low, high = span.bounds
        except OverflowError:
            raise refusal from None
        least, most = limits
        if not least <= low <= high <= most:
            raise InputError(
                f"{where}: {name} must lie between {least:g} and {most:g}, got {value!r}"
            )
        return span

    def draw(self, generator: np.random.Generator) -> float:
        """Draw one value; an int if the range is of integers."""
        if self.whole:
            return int(generator.integers(int(self.low), int(self.high), endpoint=True))
        drawn = float(generator.uniform(self.low, self.high))
        return 10.0**drawn if self.log10 else drawn

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value."""
        return (10.0**self.low, 10.0**self.high) if self.log10 else (self.low, self.high)

    def describe(self) -> Any:
        """Return the JSON-serialisable description that ``of`` reads."""
        pair = [self.low, self.high]
        return {"log10": pair} if self.log10 else pair


def read_space(name: str, presets: Sequence[str], folder: Path) -> Any:
    """Return the content of a preset of ``folder`` by its name, or of a YAML file by its path.

    Raises
    ------
    InputError
        There is no such preset or file, or it is not YAML.
    """
    path = folder / f"{name}.yaml" if name in presets else Path(name).expanduser()
    if path.suffix not in (".yaml", ".yml"):
        near = get_close_matches(name.lower(), presets, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"{opt('space')} must be one of {', '.join(presets)} or the path of a .yaml "
            f"file, got {name!r}{hint}"
        )
    return read_yaml(path, f"{opt('space')} must be")


def refuse_others(content: Mapping[Any, Any], known: Sequence[str], where: str) -> None:
    """Refuse keys of a file other than those it may have.

    Raises
    ------
    InputError
        One is unknown.
    """
    for key in content:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"{where} takes {', '.join(known)}, got {key!r}{hint}")


def _is_number(value: Any, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        return False
    return math.isfinite(value)
