"""The one exception for a cluster that cannot be had, and text that a terminal may be shown."""

from __future__ import annotations

import unicodedata

UNPRINTABLE = {"Cc", "Cf", "Co", "Cs"}  # control characters, those that reorder text, and such


def printable(text: str) -> str:
    """Return text whose control characters are written out: ESC as ``\\x1b``.

    Labels, column names and file names come from others, and a terminal obeys what it is sent.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one in "\n\t" or unicodedata.category(one) not in UNPRINTABLE
        else one.encode("unicode_escape").decode()
        for one in text
    )  # fmt: skip


class ClusterError(ValueError):
    """A cluster cannot be opened as asked.

    The message is one line that names the option, the rule, the value and the
    way out; commands print it on stderr and end with exit status 2.
    """
