"""Columns of text as numbers, truth values or levels, with notes on what was converted.

A column is numbers if nearly all of its cells are, once a mark that all of them share is removed:
a currency, a percent sign, a unit, a thousands separator, a decimal comma.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.data.tables.words import SIGNS, counted, list_names, short

SAMPLE = 1000  # cells that decide whether a column may be numbers with a mark
MIN_FRACTION = 0.9  # least fraction of numbers in a column of numbers
MIN_FRACTION_OF_MANY = 0.5  # the same for more different numbers than codes have
MOST_CODES = 20  # most different words in a column of codes such as 1a and 2b
MOST_MARKS = 3  # most units in a column of numbers that cannot be compared
FEWEST_BESIDE_SLIP = 5  # in a short column, fewest numbers beside which another cell is a slip
_CURRENCIES = "USD|EUR|GBP|JPY|CNY|CHF|CAD|AUD|INR|SEK|NOK|DKK|PLN|CZK|BRL|MXN|KRW"
_MARK = rf"[\p{{Sc}}~\x{{2248}}]|{_CURRENCIES}"
_BLANK = "\\s\u00a0\u2007\u2009\u202f"
# For RE2, without captures, which slow it down: the text before a number and after it.
_SIGNED = rf"[{_BLANK}]*[-+\x{{2212}}]?"
_BEFORE = rf"^\(?{_SIGNED}[{_BLANK}]*(?:{_MARK})?{_SIGNED}\(?$"
_AFTER = rf"^[{_BLANK}]*(?:\pL[^\d\s(),]{{0,9}}|[^\pL\d\s.,()+-][^\d\s(),]{{0,3}})?[{_BLANK}]*\)?$"
_POWER = r"(?:[eEdD][-+]?\d+)?"
_APART = {".": (",", "'", "\u2019", f"[{_BLANK}]"), ",": (r"\.", "'", "\u2019", f"[{_BLANK}]")}
_STOPS = r"^\s*-?\d+\.\d+\s*$"
_THOUSANDS = r"^[-+]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d{1,3})$"
_DECIMAL = re.compile(r"-?\d+(\.\d*)?")
_SCIENTIFIC = r"^[-+]?\d\.\d+[eE][-+]\d\d$"
_WHOLE_AS_FLOAT = r"^-?(0|[1-9]\d{0,15})\.0$"

Array = NDArray[Any]


@dataclass(frozen=True)
class Slip:
    """Cells in a column of numbers that are not numbers, or are numbers of another form.

    Attributes
    ----------
    row, cell : int, str
        The first of them.
    n_cells : int
        Number of such cells.
    usual : str
        A number as most cells have it.
    """

    row: int
    cell: str
    n_cells: int
    usual: str


@dataclass
class TypedColumns:
    """The columns of a text, converted to types.

    Attributes
    ----------
    values : dict of str to array
        bool, int64, float64 (missing: NaN) or object arrays of text (missing: NaN), by column.
    slips : dict of str to Slip
        Columns of numbers with cells that are not numbers; their values are text.
    conversions : dict of str to list of str
        For each note on what was converted or taken as missing, the columns concerned.
    units : dict of str to str
        The mark that all numbers of a column have, if there is one.
    """

    values: dict[str, Array] = field(default_factory=dict)
    slips: dict[str, Slip] = field(default_factory=dict)
    conversions: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    units: dict[str, str] = field(default_factory=dict)


def type_columns(
    cells: Mapping[str, pa.ChunkedArray],
    missing: Sequence[str],
    as_text: Container[str] = (),
    commas: bool = False,
    signs: Collection[str] = SIGNS,
    numbers: Container[str] = (),
) -> TypedColumns:
    """Convert columns of text to the types that their cells have.

    Parameters
    ----------
    cells : mapping of str to pyarrow.ChunkedArray
        Columns by name; null where a row lacks the cell.
    missing : sequence of str
        Words that mean a missing cell, besides an empty one.
    as_text : container of str
        Columns that stay as they are written.
    commas : bool
        Whether a comma between groups of three digits is a decimal comma if no column decides it,
        as in most files with semicolons between cells.
    signs : collection of str
        Words in lower case that mean a missing cell in a column of numbers.
    numbers : container of str
        Columns of numbers, however few of their cells are numbers.

    Returns
    -------
    TypedColumns
    """
    columns, with_marks, float_columns = (
        TypedColumns(),
        dict[str, _Words](),
        dict[str, pa.ChunkedArray](),
    )
    for name, column in cells.items():
        present = present_cells(column, missing)
        values = None if name in as_text else _plain(present)
        if values is not None and (word := _after_zeros(present, values)) is not None:
            note = f"zeros before numbers left out, {short(word)} is {float(word):.15g},"
            columns.conversions[note].append(name)
        if values is None and name not in as_text:
            words = _Words.of(present, signs, name in numbers)
            with_marks |= {name: words} if words is not None else {}
        elif values is not None and values.dtype.kind == "f" and _may_have_thousands(present):
            float_columns[name] = present
        columns.values[name] = text_of(present) if values is None else values
    show_commas = any(words.n_read[","] > words.n_read["."] for words in with_marks.values())
    show_stops = any(words.n_read["."] > words.n_read[","] for words in with_marks.values())
    if show_commas and not show_stops:
        with_marks |= {name: _Words(present, signs) for name, present in float_columns.items()}
    elif commas and with_marks and not show_commas:
        of_stops = (pc.match_substring_regex(column, _STOPS) for column in cells.values())
        commas = not show_stops and not any(pc.any(matches).as_py() for matches in of_stops)
    for name, words in with_marks.items():
        is_open = (commas or show_commas) and words.n_read[","] == words.n_read["."]
        words.convert(name, columns, "," if is_open else None, name in numbers)
    return columns


def _may_have_thousands(present: pa.ChunkedArray) -> bool:
    """Whether all numbers may have thousands stops, and at least one has a stop."""
    for part in (present.slice(0, SAMPLE), present):
        if not pc.all(pc.match_substring_regex(part, _THOUSANDS)).as_py():
            return False
    return bool(pc.any(pc.match_substring(present, ".")).as_py())


def _after_zeros(present: pa.ChunkedArray, values: Array) -> str | None:
    """The first whole number that begins with zeros, in a column of whole numbers; else None."""
    if values.dtype.kind == "b" or not np.all((values == np.floor(values)) | np.isnan(values)):
        return None
    has_zeros = pc.match_substring_regex(present, r"^-?0\d")
    return present[pc.index(has_zeros, True).as_py()].as_py() if pc.any(has_zeros).as_py() else None


def present_cells(column: pa.ChunkedArray, missing: Sequence[str]) -> pa.ChunkedArray:
    """Cells without surrounding blanks, null where they mean a missing value."""
    trimmed = pc.utf8_trim_whitespace(column)
    gaps = pc.is_in(trimmed, value_set=pa.array(["", *missing], trimmed.type))
    for number in filter(_DECIMAL.fullmatch, missing):  # if -999 means missing, so does -999.0
        short_form = number.rstrip("0").rstrip(".") if "." in number else number
        trailing_zeros = r"0*$" if "." in short_form else r"(?:[.,]0*)?$"
        written = f"^{short_form.replace('.', '[.,]')}{trailing_zeros}"
        gaps = pc.or_(gaps, pc.match_substring_regex(trimmed, written))
    return pc.if_else(gaps, pa.scalar(None, trimmed.type), trimmed)


def text_of(present: pa.ChunkedArray) -> Array:
    """Text as an array of objects, NaN where it is missing; whole numbers without their ``.0``.

    pandas writes whole numbers with ``.0`` in a column with missing cells, numpy as ``1.000e+00``.
    """
    if pc.all(pc.match_substring_regex(present, _WHOLE_AS_FLOAT)).as_py():
        present = pc.utf8_slice_codeunits(present, 0, -2)
    elif all(
        pc.all(pc.match_substring_regex(part, _SCIENTIFIC)).as_py()
        for part in (present.slice(0, SAMPLE), present)
    ):
        numbers = pc.cast(present, pa.float64())
        whole = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), 2.0**53))
        if pc.all(whole).as_py():
            present = pc.cast(pc.cast(numbers, pa.int64()), present.type)
    values = present.to_pandas().to_numpy(dtype=object)
    values[present.is_null().to_numpy()] = np.nan
    return values


def _plain(present: pa.ChunkedArray) -> Array | None:
    """Cells that are numbers or truth values as Python writes them; None for any others."""
    if present.null_count == len(present):
        return np.full(len(present), np.nan)
    arrow_types = ([pa.int64()] if not present.null_count else []) + [pa.float64()]
    for arrow_type in arrow_types:
        with suppress(pa.ArrowInvalid):
            # Tried on a sample first, as a cast that fails still reads all cells.
            pc.cast(present.slice(0, SAMPLE), arrow_type)
            values = pc.cast(present, arrow_type).to_numpy()
            if any(pc.any(pc.starts_with(present, mark)).as_py() for mark in ("0x", "0X")):
                break  # hexadecimal numbers are not read as numbers
            return values
    words = pa.array(["true", "false"])
    for part in (present.slice(0, SAMPLE), present):
        truth = pc.utf8_lower(part)
        if not pc.all(pc.is_in(truth.drop_null(), value_set=words)).as_py():
            return None
    values = pc.equal(truth, "true")
    return values.to_numpy() if not present.null_count else pc.cast(values, pa.float64()).to_numpy()


@dataclass(frozen=True)
class _Reading:
    """The different words of a column as numbers, for one decimal mark.

    values : NaN where a word is not a number
    grouped : whether it has a thousands separator
    marks : the text around the number, as positions in ``names``
    """

    values: Array
    grouped: Array
    marks: Array
    names: Sequence[str]


class _Words:
    """The different words of a column that may be numbers with a mark."""

    def __init__(self, present: pa.ChunkedArray, signs: Collection[str]) -> None:
        encoded = pc.dictionary_encode(pa.concat_arrays(present.chunks))
        self.codes: Array = encoded.indices.fill_null(-1).to_numpy()
        self.words: pa.Array = encoded.dictionary
        self.counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.words))
        self.is_sign = _are_signs(self.words, signs).to_numpy(False)
        self.n_cells = int(self.counts[~self.is_sign].sum())
        self.readings = _read(self.words)
        self.n_read = {decimal: self._count(read) for decimal, read in self.readings.items()}

    def _count(self, reading: _Reading) -> int:
        """Number of cells that are numbers in this reading."""
        return int(self.counts[np.isfinite(reading.values) & ~self.is_sign].sum())

    @classmethod
    def of(cls, present: pa.ChunkedArray, signs: Collection[str], numbers: bool) -> _Words | None:
        """The words of a column; None if too few can be numbers."""
        positions = np.linspace(0, len(present) - 1, min(SAMPLE, len(present))).astype(int)
        head = present.take(pa.array(positions))
        n_like = (
            pc.sum(pc.match_substring_regex(head, r"^[^\pL]{0,4}\d|^[A-Z]{3}.?\d")).as_py() or 0
        )
        n_signs = pc.sum(_are_signs(head, signs)).as_py() or 0
        if not numbers and 2 * n_like < len(head) - head.null_count - n_signs:
            return None
        return cls(present, signs)

    def convert(self, name: str, columns: TypedColumns, decimal: str | None, numbers: bool) -> None:
        """Convert the column ``name`` of ``columns``, or record its slips, if it holds numbers.

        Parameters
        ----------
        name : str
        columns : TypedColumns
            Its values, units and conversions are changed.
        decimal : str or None
            The decimal mark; None takes the one by which more cells are numbers, or a stop if they
            are equal.
        numbers : bool
            Whether it is a column of numbers, however few of its cells are numbers.
        """
        decimal = decimal or max((".", ","), key=lambda mark: self.n_read[mark])
        reading = self.readings[decimal]
        is_number = np.isfinite(reading.values) & ~self.is_sign
        n_cells = np.bincount(reading.marks[is_number], self.counts[is_number], minlength=1)
        usual_mark, n_numbers = int(np.argmax(n_cells)), int(n_cells.max())
        n_slips = self.n_cells - n_numbers
        fits = is_number & (reading.marks == usual_mark)
        if not n_numbers and (self.n_cells or not numbers):
            # A column of signs alone holds missing numbers only if it is known to be a column of
            # numbers.
            return
        if not (numbers or self._are_enough(n_numbers, int(fits.sum())) or self._are_mixed()):
            return
        if n_slips:
            # Missing cells have the code -1, which indexes the appended entry; so below.
            is_slip = np.append(~fits & ~self.is_sign, False)
            row, example = int(np.argmax(is_slip[self.codes])), int(np.argmax(fits))
            words = [self.words[word].as_py() for word in (self.codes[row], example)]
            columns.slips[name] = Slip(row, words[0], n_slips, words[1])
            return
        values = np.append(np.where(fits, reading.values, np.nan), np.nan)
        columns.values[name] = values[self.codes]
        if mark := reading.names[usual_mark] if n_numbers else "":
            columns.units[name] = mark
        for note in self._notes(decimal, reading, fits, mark):
            columns.conversions[note].append(name)

    def _are_enough(self, n_numbers: int, n_different: int) -> bool:
        """Whether cells are numbers but for slips: nearly all, or half that mostly differ.

        Few numbers that occur often are levels among others, such as 1, 2 and x.
        """
        if n_numbers >= MIN_FRACTION * self.n_cells:
            return True
        is_slip = n_numbers == self.n_cells - 1 >= FEWEST_BESIDE_SLIP
        if n_different > MOST_CODES:
            return n_numbers >= MIN_FRACTION_OF_MANY * self.n_cells
        return is_slip or (2 * n_different > n_numbers > MIN_FRACTION_OF_MANY * self.n_cells)

    def _are_mixed(self) -> bool:
        """Whether most cells are numbers, but of several forms."""
        first, second = self.readings.values()
        is_number = (np.isfinite(first.values) | np.isfinite(second.values)) & ~self.is_sign
        return bool(
            self.counts[is_number].sum() > MIN_FRACTION_OF_MANY * self.n_cells
            and is_number.sum() > MOST_CODES
            and len(np.unique(first.marks[is_number])) <= MOST_MARKS
        )

    def _notes(self, decimal: str, reading: _Reading, fits: Array, mark: str) -> list[str]:
        """What was converted, in words."""
        notes = [f"numbers with {mark!r} read without it"] if mark else []
        words = self.words.filter(pa.array(fits))
        if decimal == "," and pc.any(pc.match_substring(words, ",")).as_py():
            notes.append("decimal commas")
        grouped = np.flatnonzero(reading.grouped & fits)
        if len(grouped):
            word, value = self.words[grouped[0]].as_py(), reading.values[grouped[0]]
            notes.append(f"thousands apart, {short(word)} is {value:.15g},")
        if pc.any(pc.match_substring(words, "(")).as_py():
            notes.append("numbers in brackets as negative")
        if self.is_sign.any():
            signs = list_names(self.words.filter(pa.array(self.is_sign)).to_pylist())
            n_cells = int(self.counts[self.is_sign].sum())
            notes.append(f"{counted(n_cells, 'cell')} {signs} as missing")
        return notes


def _are_signs(words: Any, signs: Collection[str]) -> Any:
    """Whether each word means a missing value in a column of numbers."""
    return pc.is_in(pc.utf8_lower(words), pa.array(sorted(signs), words.type))


def _replaced(words: pa.Array, pattern: str, by: str = "") -> pa.Array:
    """Words with a pattern replaced, in the syntax of RE2."""
    return pc.replace_substring_regex(words, pattern, by)


def _matches(words: pa.Array, pattern: str) -> Array:
    """Whether each word matches a pattern, in the syntax of RE2."""
    return np.asarray(pc.match_substring_regex(words, pattern).to_numpy(zero_copy_only=False))


def _read(words: pa.Array) -> dict[str, _Reading]:
    """The words as numbers, for each decimal mark."""
    before, after = _replaced(words, r"[\d.,](?s:.)*$"), _replaced(words, r"^(?s:.)*[\d.,]")
    core = _replaced(words, r"^[^\d.,]+|[^\d.,]+$")
    has_opening, has_closing = _matches(before, r"\("), _matches(after, r"\)")
    is_sane = _matches(before, _BEFORE) & _matches(after, _AFTER) & (has_opening == has_closing)
    is_negative = _matches(before, r"[-\x{2212}(]")
    marks = pc.binary_join_element_wise(
        _replaced(before, rf"[-+\x{{2212}}({_BLANK}]"),
        _replaced(after, rf"[){_BLANK}]"),
        pa.scalar("", words.type),
    )
    marks = pc.dictionary_encode(marks)
    names, codes = marks.dictionary.to_pylist(), marks.indices.to_numpy()
    readings = {}
    for decimal, stop in ((".", "[.]"), (",", ",")):
        is_grouped = np.zeros(len(words), bool)
        if decimal == ".":  # Indian grouping, such as 12,34,567
            is_grouped = _matches(core, r"^[1-9]\d?(?:,\d\d)+,\d{3}(?:[.]\d*)?$")
        for separator in _APART[decimal]:
            is_grouped |= _matches(
                core, rf"^[1-9]\d{{0,2}}(?:{separator}\d{{3}})+(?:{stop}\d*)?{_POWER}$"
            )
        is_plain = _matches(core, rf"^(?:\d+(?:{stop}\d*)?|{stop}\d+){_POWER}$")
        digits = _replaced(core, rf"[^\d{decimal}eEdD+-]")
        digits = _replaced(pc.replace_substring(digits, decimal, "."), "[dD]", "e")
        digits = pc.if_else(pa.array(is_sane & (is_plain | is_grouped)), digits, None)
        values = pc.cast(digits, pa.float64()).to_numpy(zero_copy_only=False)
        readings[decimal] = _Reading(
            np.where(is_negative, -values, values), is_grouped, codes, names
        )
    return readings
