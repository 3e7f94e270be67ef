"""How many machine instructions an iteration of the solver takes, from its disassembly.

    nvdisasm -c kernel.cubin

A loop is what lies between a label and a later branch back to it. The solver's iteration
is the innermost loop with barriers of its own that divides in double precision, which
nothing but the step along a pair does; loops inside it go over members, or over warps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABEL = re.compile(r"^\s*(\.L_\S+):")
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)(.*)")
_BRANCH = re.compile(r"`\((\.L_\S+?)\)")

MEMBERS_A_TURN = 4  # of each thread


@dataclass(frozen=True)
class Loop:
    """Instructions of an iteration.

    Attributes
    ----------
    fixed : int
        That a warp issues once, whatever the number of members; calls not followed.
    inner : tuple of int
        The bodies of the loops inside, in the order of the code.
    barriers, local, calls : int
        Among the fixed ones: barriers of the block, reads and writes of spilled
        registers, and calls, most of them of divisions.
    """

    fixed: int
    inner: tuple[int, ...]
    barriers: int
    local: int
    calls: int

    @property
    def fixed_of_a_warp(self) -> int:
        """Whatever the members: what lies in no loop, and a turn of each loop over warps."""
        return self.fixed + sum(sorted(self.inner)[:-2])

    @property
    def for_32_members(self) -> float:
        """Of the two passes, the longest loops, whose turn takes ``MEMBERS_A_TURN`` members."""
        return sum(sorted(self.inner)[-2:]) / MEMBERS_A_TURN


def iteration_loops(text: str) -> list[Loop]:
    """The loops of ``text``, nvdisasm's, that are an iteration of the solver."""
    code, labels = _parse(text)
    intervals = sorted(
        {
            (labels[target], at)
            for at, (name, rest) in enumerate(code)
            if name.startswith("BRA")
            for target in _BRANCH.findall(rest)
            if target in labels and labels[target] <= at
        }
    )
    found = []
    for first, last in intervals:
        inside = [one for one in intervals if first <= one[0] and one[1] <= last]
        inside.remove((first, last))
        inner = [
            one
            for one in inside
            if not any(
                other != one and other[0] <= one[0] and one[1] <= other[1] for other in inside
            )
        ]
        if any(_barriers(code[a : b + 1]) for a, b in inner):
            continue
        own = [code[at] for at in range(first, last + 1) if not any(a <= at <= b for a, b in inner)]
        divides = any(name.startswith("MUFU.RCP64H") for name, _ in code[first : last + 1])
        if _barriers(own) >= 2 and divides:
            local = sum(name.startswith(("LDL", "STL")) for name, _ in own)
            calls = sum(name.startswith("CALL") for name, _ in own)
            bodies = tuple(b - a + 1 for a, b in inner)
            found.append(Loop(len(own), bodies, _barriers(own), local, calls))
    return found


def _barriers(code: list[tuple[str, str]]) -> int:
    return sum(name.startswith("BAR.SYNC") for name, _ in code)


def _parse(text: str) -> tuple[list[tuple[str, str]], dict[str, int]]:
    code: list[tuple[str, str]] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(code)
        elif one := _CODE.match(line):
            code.append((one[2], one[3]))
    return code, labels
