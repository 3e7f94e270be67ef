"""The page's templates, beside this file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2


def template(name: str) -> jinja2.Template:
    """A template that escapes what it is given and refuses what it is not."""
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    return environment
