"""A command as a Python function, whose signature, docstring and errors follow from its options."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_type_hints

from cluster_setup.errors import ClusterError
from pipelines.errors import InputError, flag_of, nearest
from pipelines.run.options import python_options
from pipelines.run.result import Run

WIDTH = 96


def signature_of(options_class: type[Any]) -> inspect.Signature:
    """The signature of a function whose keywords are the options, with types and defaults."""
    types = get_type_hints(options_class)
    return inspect.Signature(
        [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Literal[tuple(field.metadata["choices"])]
                if field.metadata["choices"]
                else types[field.name],
            )
            for field in python_options(options_class)
        ],
        return_annotation=Run,
    )


def docstring_of(options_class: type[Any], summary: str) -> str:
    """A docstring with the meaning, the default and the range of every option."""
    lines = [summary, "", "Parameters", "----------"]
    for field in python_options(options_class):
        metadata = field.metadata
        meaning = with_keywords(metadata["help"], options_class)
        is_value = meaning.split()[0].strip(",") in (field.default, *(metadata["choices"] or ()))
        text = meaning if is_value else f"{meaning[0].upper()}{meaning[1:]}"
        if metadata["rule"] is not None:
            text += f"; {metadata['rule'].text}"
        choices, annotation = metadata["choices"], str(field.type).removesuffix(" | None")
        values = "{" + ", ".join(map(repr, choices)) + "}" if choices else annotation
        default = "optional" if field.default in (None, ()) else f"default {field.default!r}"
        lines.append(f"{field.name} : {values}, {default}")
        lines += textwrap.wrap(
            f"{text}.",
            WIDTH,
            initial_indent="    ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(
        [
            *lines,
            "",
            "Returns",
            "-------",
            "Run",
            "    Its answer, tables and figures; after a dry run, where they would be.",
            "",
            "Raises",
            "------",
            "InputError, ClusterError",
            "    Nothing was begun; the message says what to put right.",
            "RunStopped",
            "    The run ended early; what was computed is in its folder.",
            "",
        ]
    )


def words_of(options_class: type[Any], options: Mapping[str, Any]) -> list[str]:
    """The words of options as they are typed; raises InputError for a name that is no option."""
    fields = {field.name: field for field in python_options(options_class)}
    words: list[str] = []
    for name, value in options.items():
        if name not in fields:
            way_out = nearest(name, fields, "help(run) lists them")
            raise InputError(f"{name} is not a parameter of this command; {way_out}")
        if value is None or value is False:
            continue
        value = value.tolist() if hasattr(value, "tolist") else value  # of numpy
        parts = value if isinstance(value, (tuple, list)) else [value]
        part_words = [
            code_name(name, part) if inspect.isroutine(part) else str(part) for part in parts
        ]
        if fields[name].metadata["nargs"] is None:
            part_words = [",".join(part_words)]
        words += [flag_of(name), *([] if value is True else part_words)]
    return words


def code_name(option: str, function: Any) -> str:
    """The name of a function for an option: ``module:NAME``, or ``FILE.py:NAME`` of a script.

    Raises
    ------
    InputError
        Workers cannot import it: it was defined in a notebook, or within another function.
    """
    name, module = function.__qualname__, str(function.__module__)
    path = sys.modules[module].__dict__.get("__file__") if module in sys.modules else None
    if not name.isidentifier() or not path:
        raise InputError(
            f"{option} must be a function that workers can import, got {name}, which is none at "
            "the top of a file; put it in one"
        )
    return f"{Path(path).absolute()}:{name}" if module == "__main__" else f"{module}:{name}"


def with_keywords(message: str, options_class: type[Any]) -> str:
    """A message with the flags of options replaced by their keywords."""
    for name in sorted(
        (field.name for field in dataclasses.fields(options_class)), key=len, reverse=True
    ):
        message = re.sub(rf"{flag_of(name)}(?![\w-])", name, message)
    return message


def as_function(
    run: Callable[[list[str]], Path], options_class: type[Any], summary: str
) -> Callable[..., Run]:
    """A command as a function that takes its options as keywords and returns a ``Run``.

    Parameters
    ----------
    run : function of a command line, as a list of words
        Returns the folder of the run.
    options_class : type
        The dataclass whose fields are the options.
    summary : str
        The first line of the docstring.
    """

    def command(**options: Any) -> Run:
        try:
            path = run(words_of(options_class, options))
        except (InputError, ClusterError) as error:
            raise type(error)(with_keywords(str(error), options_class)) from None
        return Run.planned(path) if options.get("dry_run") else Run(path)

    command.__name__ = command.__qualname__ = "run"
    command.__doc__ = docstring_of(options_class, summary)
    command.__signature__ = signature_of(options_class)  # type: ignore[attr-defined]
    return command
