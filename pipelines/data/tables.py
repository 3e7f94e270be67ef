"""The user's own tables: .csv, .parquet and .npz files."""

from __future__ import annotations

import os
import reprlib
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet", ".npz")

Table = tuple[NDArray[np.float64], NDArray[Any], list[str]]


def read_table(path: str | Path, target: str | None = None, device: str = "cpu") -> Table:
    """Read features and labels from one file.

    Parameters
    ----------
    path : a .csv with a header line, a .parquet, or an .npz with the features in ``X``
    target : the column of labels; in an .npz the array of labels, ``y`` by default
    device : "gpu" reads .csv and .parquet with cudf where it is installed, else pandas does

    Returns
    -------
    X : float64 of shape (n_samples, n_features), finite
    y : labels of shape (n_samples,): bool, integer or text
    feature_names : n_features names; x0, x1, ... for an .npz

    Raises
    ------
    InputError
        The file cannot be read, or breaks a rule: numeric, finite features, at least one of
        them, and a class label in every row.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{opt('dataset')} must be a {', '.join(SUFFIXES)} file, got '{path}'; convert it"
        )
    # A data set written in parts by Dask or Spark is a folder named *.parquet.
    if not (os.path.isfile(path) or (os.path.isdir(path) and suffix == ".parquet")):
        raise InputError(
            f"{opt('dataset')} must be an existing file, '{path}' is none; check the path"
        )
    if suffix == ".npz":
        return _read_npz(path, target or "y")
    frame = _read_frame(path, suffix, device)
    return _split_frame(frame, path, target)


def _read_frame(path: Path, suffix: str, device: str) -> pd.DataFrame:
    frame = _read_with_cudf(path, suffix) if device == "gpu" else None
    return _read_with_pandas(path, suffix) if frame is None else frame


def _read_with_cudf(path: Path, suffix: str) -> pd.DataFrame | None:
    """The table in host memory, or None where cudf cannot be used or cannot read it."""
    try:
        import cudf

        read = cudf.read_csv if suffix == ".csv" else cudf.read_parquet
        frame: pd.DataFrame = read(str(path)).to_pandas()
    except Exception:
        # Without a working driver cudf fails in several ways; and what is wrong with a file
        # pandas says in one way on every machine.
        return None
    return frame


def _read_with_pandas(path: Path, suffix: str) -> pd.DataFrame:
    import pandas as pd

    try:
        if suffix == ".parquet":
            return pd.read_parquet(path, engine="pyarrow")
        with warnings.catch_warnings():
            # By default a surplus field makes the first column an index, silently.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(path, index_col=False, low_memory=False)
    except pd.errors.EmptyDataError:
        raise _empty(path) from None
    except Exception as error:  # pandas and pyarrow raise a dozen unrelated types
        raise _unreadable(path, error) from None


def _split_frame(frame: pd.DataFrame, path: Path, target: str | None) -> Table:
    names = [str(name) for name in frame.columns]
    frame.columns = names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise _unreadable(path, f"two columns are called {_short(twice)}")
    if target is None:
        raise InputError(
            f"{opt('target')} must name the column of labels in '{path}', it was not given; "
            f"choose one of {_listed(names)}"
        )
    if len(names) == 1 and (separator := next((s for s in ";\t|" if s in names[0]), None)):
        raise _unreadable(path, f"its columns are separated by {separator!r}, not by commas")
    if target not in names:
        raise _no_target(path, target, names, "a column")
    if frame.empty:
        raise _empty(path)
    features = [name for name in names if name != target]
    if not features:
        raise InputError(
            f"{opt('dataset')} must have a feature column beside {opt('target')} {target!r}, "
            f"'{path}' has none; add one (a .csv needs commas between columns)"
        )
    y = _labels(frame[target], path)
    X = np.empty((len(frame), len(features)))
    for i, name in enumerate(features):
        X[:, i] = _numbers(frame[name], path)
    _check_finite(X, features, path)
    return X, y, features


def _read_npz(path: Path, target: str) -> Table:
    import pandas as pd

    with _open_npz(path) as arrays:
        names = list(arrays.files)
        if "X" not in names:
            raise InputError(
                f"{opt('dataset')} must hold an array X of features, '{path}' has "
                f"{_listed(names)}; save it with numpy.savez(path, X=..., y=...)"
            )
        if target not in names or target == "X":
            raise _no_target(path, target, [name for name in names if name != "X"], "an array")
        X, y = _array(arrays, "X", path), _array(arrays, target, path)
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
        raise InputError(
            f"{opt('dataset')} must hold X of shape (rows, features) and {target} of shape "
            f"(rows,), '{path}' has {X.shape} and {y.shape}; reshape them"
        )
    if X.size == 0:
        raise _empty(path)
    if X.dtype.kind not in "biuf":
        raise InputError(
            f"{opt('dataset')} must have numeric features, X in '{path}' is of type {X.dtype}; "
            f"encode it as numbers"
        )
    if y.dtype.kind not in "biufU":
        raise InputError(
            f"{opt('target')} must name labels that are numbers or text, {target!r} in '{path}' is "
            f"of type {y.dtype}; encode them"
        )
    feature_names = [f"x{i}" for i in range(X.shape[1])]
    labels = _labels(pd.Series(y, name=target), path)
    X = np.ascontiguousarray(X, dtype=np.float64)
    _check_finite(X, feature_names, path)
    return X, labels, feature_names


@contextmanager
def _open_npz(path: Path) -> Iterator[Any]:
    # numpy.load leaves a file it opened itself open when it turns out not to be a ZIP file.
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            arrays = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise _unreadable(path, error) from None
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise _unreadable(path, "it holds a single array; numpy.savez writes several")
        yield stack.enter_context(arrays)


def _array(arrays: Any, name: str, path: Path) -> NDArray[Any]:
    try:
        array = arrays[name]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{opt('dataset')} must hold plain arrays, {name!r} in '{path}' is an array of "
                f"Python objects; save it as numbers or text, such as {name}.astype(str)"
            ) from None
        raise _unreadable(path, error) from None
    if not isinstance(array, np.ndarray):
        raise _unreadable(path, f"{name!r} is not a NumPy array")
    return array


def _numbers(column: pd.Series, path: Path) -> NDArray[np.float64]:
    """One feature as float64, missing values as NaN."""
    import pandas as pd

    types = pd.api.types
    if types.is_complex_dtype(column.dtype):
        raise _text(column, 0, path)
    if types.is_numeric_dtype(column.dtype):  # bool too
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if types.is_datetime64_any_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        raise _text(column, 0, path)
    values = column.astype(object)
    numbers = pd.to_numeric(values, errors="coerce").astype(np.float64)
    bad = np.flatnonzero(numbers.isna() & values.notna())
    if len(bad):
        raise _text(values, int(bad[0]), path)
    return np.asarray(numbers, dtype=np.float64)


def _text(column: pd.Series, row: int, path: Path) -> InputError:
    return InputError(
        f"{opt('dataset')} must have numeric features, column {_short(column.name)} of '{path}' "
        f"has {_short(column.iloc[row])} in data row {row + 1}; encode it as numbers or drop the "
        f"column"
    )


def _check_finite(X: NDArray[np.float64], names: list[str], path: Path) -> None:
    bad = ~np.isfinite(X)
    columns = np.flatnonzero(bad.any(axis=0))
    if not len(columns):
        return
    first = X[:, columns[0]]
    counts = {"NaN (missing)": np.isnan(first).sum(), "infinite": np.isinf(first).sum()}
    found = " and ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    others = len(columns) - 1
    more = f", {others} other column{'s' * (others > 1)} too" if others else ""
    raise InputError(
        f"{opt('dataset')} must have finite features, column {_short(names[columns[0]])} of "
        f"'{path}' has {found} in {len(X)} rows{more}; fill them in or drop them"
    )


def _labels(column: pd.Series, path: Path) -> NDArray[Any]:
    """Labels as bool, integers or text; never as objects, which have no stable bytes."""
    missing = column.isna()
    if missing.any():
        raise InputError(
            f"{opt('target')} must have a label in every row, {_short(column.name)} of '{path}' is "
            f"missing in {missing.sum()} of {len(column)} rows, first in data row "
            f"{int(np.argmax(missing)) + 1}; fill them in or drop the rows"
        )
    plain = {"b": np.bool_, "i": np.int64, "u": np.uint64}.get(column.dtype.kind)
    if plain is not None:
        return column.to_numpy(dtype=plain)
    if column.dtype.kind != "f":
        return np.array([str(label) for label in column])
    values = column.to_numpy(dtype=np.float64)
    with np.errstate(invalid="ignore"):
        broken = np.flatnonzero((values % 1 != 0) | (np.abs(values) >= 2**53))
    if len(broken):
        raise InputError(
            f"{opt('target')} must hold class labels, {_short(column.name)} of '{path}' has "
            f"{float(values[broken[0]])} in data row {int(broken[0]) + 1}; name a column of "
            f"classes, or round it to classes first"
        )
    return values.astype(np.int64)


def _no_target(path: Path, target: str, names: list[str], what: str) -> InputError:
    near = get_close_matches(target, names, n=1)
    hint = f"did you mean {_short(near[0])}? " if near else ""
    return InputError(
        f"{opt('target')} must be the name of {what} of '{path}', got {target!r}; {hint}"
        f"there are {_listed(names)}"
    )


def _empty(path: Path) -> InputError:
    return InputError(
        f"{opt('dataset')} must hold at least one row of data, '{path}' has none; check that it "
        f"was written in full"
    )


def _unreadable(path: Path, why: object) -> InputError:
    reason = " ".join(str(why).split()) or type(why).__name__
    return InputError(
        f"{opt('dataset')} must be a readable {path.suffix.lower()} file, '{path}' is not "
        f"({reason}); repair it or write it again"
    )


def _listed(names: Iterable[str], most: int = 10) -> str:
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(_short(name) for name in names[:most]) or "nothing") + more


def _short(value: object) -> str:
    """One line of at most some thirty characters, whatever the value."""
    return " ".join(reprlib.repr(value.item() if isinstance(value, np.generic) else value).split())
