"""The values of C, gamma and epsilon that ``svm_grid`` tries: a logarithmic grid, values by hand,
or random ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipelines.data.dataset import REGRESSION, Dataset, take_rows
from pipelines.errors import InputError, opt
from pipelines.search.spaces import (
    N_ITER,
    Branch,
    Choice,
    Distribution,
    Point,
    Range,
    draw,
    unit_points,
)

Bounds = tuple[float, float]
Value = float | str

WORDS = ("scale", "auto")  # values of gamma that depend on the rows, as in scikit-learn
N_VALUES = {"C": 8, "gamma": 8, "epsilon": 3}  # by default
LOG_EPSILON = (-2.0, 0.0)
LEAST, MOST = 1e-30, 1e30  # limits of C and gamma, so that float64 holds their products, too
EXAMPLES = {"c": "0.1,1,10", "gamma": "scale,0.01", "epsilon": "0.01,0.1"}
ROWS_AT_ONCE = 10_000


def default_bounds(variance: float, images: bool) -> tuple[Bounds, Bounds]:
    """The default bounds of log10 C and of log10 gamma.

    Those of gamma lie around the value that scikit-learn calls "scale", 1 / (features × variance).
    For images they are whole decades; for MNIST, the bounds of the study.

    Parameters
    ----------
    variance : float
        The sum of the variances of all features: their number, if they are standardised.
    images : bool
        Whether the rows are images.
    """
    scale = -math.log10(variance)
    if images:
        return (-3.0, 6.0), (round(scale) - 3.0, round(scale) + 1.0)
    return (-2.0, 4.0), (round(scale, 2) - 2, round(scale, 2) + 1)


def read_values(text: str) -> tuple[Value, ...]:
    """Parse numbers and words separated by commas; ``check_values`` checks them."""
    return tuple(map(_value, filter(None, map(str.strip, text.split(",")))))


def _value(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text


def check_values(name: str, values: Sequence[Value]) -> None:
    """Refuse invalid values of C, gamma or epsilon.

    Raises
    ------
    InputError
        A value is out of range, or is not a number or an allowed word; there is no value; or a
        value appears twice.
    """
    words, is_epsilon = WORDS if name == "gamma" else (), name == "epsilon"
    allowed_values = f"numbers from {0 if is_epsilon else LEAST:g} to {MOST:g}"
    allowed_values += ", scale or auto," if words else ""
    rule = f"{opt(name)} must be {allowed_values} with commas between them"
    for value in values:
        is_number = not isinstance(value, str) and LEAST <= value <= MOST
        if not (is_number or value in words or (is_epsilon and value == 0)):
            value_text = repr(value) if isinstance(value, str) else f"{value:g}"
            raise InputError(f"{rule}, got {value_text}; for instance {opt(name, EXAMPLES[name])}")
    if not values:
        raise InputError(f"{rule}, got none; for instance {opt(name, EXAMPLES[name])}")
    _refuse_equal(name, values, values)


def axes_of(options: Any, data: Dataset) -> tuple[dict[str, tuple[float, ...]], dict[str, Any]]:
    """The axes of the grid, and the options that were chosen from the rows.

    Returns
    -------
    axes : dict of str to tuple of float
        Values of C, gamma and, for a regression, epsilon, each in ascending order.
    chosen : dict of str
        Numbers of values and bounds of the axes without values by hand.

    Raises
    ------
    InputError
        Several values are asked for between equal bounds, or two values by hand are equal.
    """
    axes, chosen = dict[str, tuple[float, ...]](), dict[str, Any]()
    log_bounds = bounds_of(options, data)
    for axis, (low, high) in log_bounds.items():
        name = axis.lower()
        if (values := getattr(options, name)) is not None:
            axes[axis] = axis_by_hand(name, values, data)
            continue
        n = getattr(options, f"n_{name}") or N_VALUES[axis]
        if axis == "gamma" and options.kernel == "linear":
            n = 1  # it has none
        if n > 1 and low == high:
            raise InputError(
                f"{opt(f'n_{name}')} must be 1 where {opt(f'log_{name}')} is one value, got {n}; "
                f"make the bounds of {opt(f'log_{name}')} differ"
            )
        axes[axis] = tuple(np.logspace(low, high, n).tolist())
        chosen |= {f"n_{name}": n, f"log_{name}": log_bounds[axis]}
    return axes, chosen


def ranges_of(options: Any, data: Dataset) -> dict[str, Distribution]:
    """The distributions of C, gamma and, for a regression, epsilon: log-uniform."""
    bounds = bounds_of(options, data)
    ranges: dict[str, Distribution] = {
        axis: Range(10.0**low, 10.0**high, log=True) for axis, (low, high) in bounds.items()
    }
    if options.kernel == "linear":  # it has no gamma
        ranges["gamma"] = Choice((10.0 ** bounds["gamma"][0],))
    return ranges


def draw_points(options: Any, data: Dataset) -> tuple[list[Point], dict[str, Any]]:
    """Draw C, gamma and, for a regression, epsilon from log-uniform distributions.

    Since fits with the same gamma share work, only a few values of gamma (and epsilon) are drawn,
    and several C for each, by scrambled Sobol points, which fill the bounds evenly. The plain
    sampler draws each candidate independently.

    Returns
    -------
    points : list of dict
        The parameters of each candidate, gamma by gamma.
    chosen : dict of str
        The bounds.
    """
    bounds, n = bounds_of(options, data), options.n_iter or N_ITER
    ranges = ranges_of(options, data)
    if options.sampler == "plain":
        points = draw([Branch(ranges)], n, [options.seed])
    else:
        points = _draw_several_C(ranges, n, options.seed)
    points.sort(key=lambda point: [point[axis] for axis in (*list(bounds)[1:], "C")])
    return points, {f"log_{axis.lower()}": pair for axis, pair in bounds.items()}


def _draw_several_C(ranges: Mapping[str, Distribution], n: int, seed: int) -> list[Point]:
    """Draw n candidates with few values of gamma; those that share one have C at equal distances.

    The offset of these C is one more coordinate of the Sobol point: the values of C for different
    gamma then lie between each other, and do not depend on gamma.
    """
    shared_ranges = {axis: distribution for axis, distribution in ranges.items() if axis != "C"}
    n_shared = (
        n_gammas_of(n)
        if any(isinstance(distribution, Range) for distribution in shared_ranges.values())
        else 1
    )
    units, points = unit_points(len(shared_ranges) + 1, np.random.default_rng(seed)), list[Point]()
    for i in range(n_shared):
        *shared, offset = next(units).tolist()
        n_C = n // n_shared + (i < n % n_shared)
        points += [
            {"C": ranges["C"].at((j + offset) / n_C), **Branch(shared_ranges).at(shared)}
            for j in range(n_C)
        ]
    return list({repr(point): point for point in points}.values())


def n_gammas_of(n: int) -> int:
    """The number of values of gamma for n candidates: 16 for 60, with 3 or 4 C each.

    On the study's grid of MNIST, interpolated, the best of 60 such candidates is 0.01 points behind
    the best of all, as with 60 different values of gamma; with 4 values it is 0.27 points behind. A
    power of two, as so many Sobol points each have a part of the bounds to themselves.
    """
    return min(n, 2 ** round(math.log2(2 * math.sqrt(n))))


def bounds_of(options: Any, data: Dataset) -> dict[str, Bounds]:
    """Bounds of log10 C, log10 gamma and, for a regression, log10 epsilon: those of the options, or
    the defaults."""
    log_c, log_gamma = default_bounds(data.variance, data.image_shape is not None)
    bounds = {"C": options.log_c or log_c, "gamma": options.log_gamma or log_gamma}
    if data.task == REGRESSION:
        bounds["epsilon"] = options.log_epsilon or LOG_EPSILON
    return bounds


def _refuse_equal(name: str, values: Sequence[Value], numbers: Sequence[Value]) -> None:
    """Refuse values that are equal to the digits by which candidates of two runs are matched."""
    seen: dict[str, Value] = {}
    for value, number in zip(values, numbers, strict=True):
        key = number if isinstance(number, str) else f"{number:.8g}"
        if key in seen:
            tail = "twice" if value == seen[key] else f"and {value}, both {key}"
            raise InputError(
                f"{opt(name)} must be different values, got {seen[key]} {tail}; leave one of them "
                "out"
            )
        seen[key] = value


def axis_by_hand(name: str, values: Sequence[Value], data: Dataset) -> tuple[float, ...]:
    """Values by hand as numbers, in ascending order; words depend on the rows."""
    numbers = [gamma_in_numbers(value, data) for value in values]
    _refuse_equal(name, values, numbers)
    return tuple(sorted(numbers))


def gamma_in_numbers(value: Value, data: Dataset) -> float:
    """A value of gamma as a number: ``scale`` and ``auto`` for all training rows, after scaling.

    ``scale`` is 1 / (features × variance of all entries of the matrix), ``auto`` 1 / features, both
    for the columns that the solver gets.
    """
    if not isinstance(value, str):
        return float(value)
    if value == "auto":
        return 1.0 / data.n_inputs
    fitted, moments = data.scaling.fit(data.X_train), np.zeros(3)
    for start in range(0, len(data.y_train), ROWS_AT_ONCE):  # a copy of all images might be large
        rows = take_rows(data.X_train, slice(start, start + ROWS_AT_ONCE))
        block = np.asarray(fitted.transform(rows), np.float64)
        moments += block.size, block.sum(), np.square(block).sum()
    n, total, squares = moments.tolist()
    variance = squares / n - (total / n) ** 2
    return 1.0 / (data.n_inputs * variance) if variance > 0 else 1.0


def words_in_numbers(values: Sequence[Value], data: Dataset, of_some: bool) -> list[str]:
    """A line with the values that ``scale`` and ``auto`` take for these rows; none without them.

    Parameters
    ----------
    values : sequence of float or str
    data : Dataset
    of_some : bool
        Whether the rows are features of a few images; those of all images are computed later.
    """
    texts = {
        "scale": "1 / (features × variance of the training rows)",
        "auto": "1 / features",
    }
    of = " of a few images" if of_some else ""
    words = [
        f"{value} = {gamma_in_numbers(value, data):.6g}, {texts[value]}{of * (value == 'scale')}"
        for value in values
        if isinstance(value, str)
    ]
    return [f"gamma      {'; '.join(words)}"] if words else []
