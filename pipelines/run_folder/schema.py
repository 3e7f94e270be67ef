"""The pydantic base model of the files of a run folder, and errors in one line."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import InputError

Count = Annotated[int, Field(ge=0, lt=2**62)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]
Side = Annotated[int, Field(ge=1, le=65_536)]  # of an image, in pixels
Scalar = bool | int | Number | str | None

MOST_CLASSES = 10_000

# What reading damaged or foreign content raises.
DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    IndexError,
    EOFError,
    TypeError,
    OverflowError,
    MemoryError,
    SyntaxError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
)


class RecordPart(BaseModel):
    """A record with fields of known types; any others are kept as they are."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)


def one_line(problem: object) -> str:
    """An error in one line: the first rule that is broken, and where."""
    if isinstance(problem, ValidationError):
        first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
        location = ".".join(map(str, first["loc"]))
        message = str(first["msg"]).splitlines()[0]
        return f"{location}: {message}" if location else message
    lines = str(problem).splitlines()
    return lines[0] if lines else type(problem).__name__


DRAW_OR_RESUME = "remove that file to draw the rest, or resume the run to write it again"


def damaged(path: Path, rule: str, problem: object, way_out: str = DRAW_OR_RESUME) -> InputError:
    """The error for a file in a run folder that breaks its rule."""
    return InputError(
        f"{path.name} of a run must hold {rule}; {str(path)!r} is damaged ({one_line(problem)}): "
        f"{way_out}"
    )
