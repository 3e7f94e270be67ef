"""Whether ours has become slower against its peers since the last kept result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# A ratio that is smaller by more than this share has fallen; less is a machine's noise.
FALL = 0.2


def last_kept(folder: Path, name: str, record: dict[str, Any]) -> dict[str, Any] | None:
    """The newest that ``keep`` wrote under ``name`` of this record's problem and cores, if any."""
    days = "[0-9]" * 4 + "-" + "[0-9]" * 2 + "-" + "[0-9]" * 2
    for path in sorted(folder.glob(f"{days}-{name}.json"), reverse=True):
        kept: dict[str, Any] = json.loads(path.read_text())
        if _of_what(kept) == _of_what(record):
            return kept
    return None


def _of_what(record: dict[str, Any]) -> tuple[Any, Any]:
    return record["problem"], record["machine"]["cores"]


def against(record: dict[str, Any], kept: dict[str, Any] | None) -> list[str]:
    """What to say of a record's ratios beside those of a kept one, a line each.

    Parameters
    ----------
    record, kept : dict
        With ``date`` and ``comparisons``: ``ours``, ``peer`` and ``ratio``, the peer's
        time over ours.
    """
    if kept is None:
        return ["guard  no kept result of this problem on as many cores to compare with"]
    before = {(one["ours"], one["peer"]): one["ratio"] for one in kept["comparisons"]}
    said, compared = [], 0
    for one in record["comparisons"]:
        then, now = before.get((one["ours"], one["peer"])), one["ratio"]
        compared += then is not None
        if then is not None and now < (1 - FALL) * then:
            said.append(
                f"guard  {one['ours']} against {one['peer']}: {now:.1f} x, "
                f"{1 - now / then:.0%} less than {then:.1f} x on {kept['date']}"
            )
    if said:
        return said
    return [f"guard  none of {compared} ratios fell by more than {FALL:.0%} since {kept['date']}"]
