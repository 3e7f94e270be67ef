"""A hook of mkdocs: what pages say of files outside ``docs`` leads nowhere on the built site.

On the hosting site such a link opens the file; the built pages show its text alone. And no dash
stands behind a parameter of the reference that shares the description of the next.
"""

from __future__ import annotations

import re
from typing import Any

NO_DESCRIPTION = re.compile(r"–\s*<div class=\"doc-md-description\">\s*</div>")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Keep the text of links that leave the folder; links between pages stay."""
    depth = page.file.src_uri.count("/")
    leaves = re.compile(rf"\[([^\]]+)\]\((?:\.\./){{{depth + 1},}}[^)]*\)")
    return leaves.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Leave out the dash before a description that is none."""
    return NO_DESCRIPTION.sub("", html)
