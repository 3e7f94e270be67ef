"""A hook of mkdocs: the search finds a page by the words that the glossary has for it.

An entry of ``glossary.md`` begins with its words, in bold, and the first page that it links to is
the one to find: the words become tags of that page, which the search puts before all text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

GLOSSARY = Path(__file__).with_name("glossary.md")
ENTRY = re.compile(r"^- \*\*(.+?)\*\*.*?\]\(([^)#]+)", re.MULTILINE | re.DOTALL)


def words_of_pages() -> dict[str, list[str]]:
    """The words of each page, by its path below ``docs``."""
    words: dict[str, list[str]] = {}
    for terms, page in ENTRY.findall(GLOSSARY.read_text()):
        words.setdefault(posixpath.normpath(page), []).extend(re.split(r",\s+", terms))
    return words


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Tag a page with its words."""
    page.meta["tags"] = words_of_pages().get(page.file.src_uri, [])
    return markdown
