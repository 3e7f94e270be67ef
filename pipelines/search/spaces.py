"""Search spaces: lists and distributions of parameter values, in branches, and draws from them.

A space is a list of branches, as scikit-learn's list of grids is. Each branch has a distribution
for every parameter of its own, which need not exist in another branch. Every distribution maps
points of the unit interval to values, so that evenly spread points (Sobol), random generators and
samplers of other packages draw from the same objects.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from pipelines.errors import InputError, opt

N_ITER = 60  # candidates that are drawn by default
MOST_TRIES = 20  # draws per wanted candidate, as some repeat earlier ones
MOST_COUNTED = 2**62  # combinations of lists that a 64-bit index can number

Point = dict[str, Any]  # a value for each parameter


@dataclass(frozen=True)
class Bounds:
    """What a sampler from another package needs to know about a distribution.

    Attributes
    ----------
    value_type : {"float", "int", "place", "unit"}
        What the sampler should suggest: a number between the bounds, both included; the index of a
        value in a list; or a point of the unit interval, which ``Distribution.at`` maps.
    low, high : float
        The bounds; for a list the first and the last index.
    log : bool
        Whether the logarithm is uniform.
    """

    value_type: Literal["float", "int", "place", "unit"]
    low: float
    high: float
    log: bool = False


class Distribution(ABC):
    """The values that a parameter may have, and how likely each is."""

    @abstractmethod
    def at(self, u: float) -> Any:
        """The value at a point of [0, 1): the quantile function of the distribution."""

    @property
    def bounds(self) -> Bounds:
        """See ``Bounds``; by default a point of the unit interval is suggested."""
        return Bounds("unit", 0.0, 1.0)

    def draw(self, generator: np.random.Generator) -> Any:
        """Draw a value at random."""
        return self.at(float(generator.random()))


def rounded(value: float) -> float:
    """A number rounded to 6 significant digits, as tables show it."""
    return float(f"{value:.6g}")


@dataclass(frozen=True)
class Choice(Distribution):
    """A list of equally likely values."""

    values: tuple[Any, ...]

    def at(self, u: float) -> Any:
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    @property
    def bounds(self) -> Bounds:
        return Bounds("place", 0, len(self.values) - 1)

    def __str__(self) -> str:
        return str(list(self.values))


@dataclass(frozen=True)
class Range(Distribution):
    """Numbers between two bounds, both included, uniform by themselves or by their logarithms.

    Attributes
    ----------
    low, high : float
    log : bool, default False
        Whether the logarithm is uniform.
    whole : bool, default False
        Whether the numbers are integers.
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def at(self, u: float) -> float:
        """See ``Distribution``; an integer stands for the interval of width 1 around it."""
        half = 0.5 if self.whole else 0.0
        low, high = self.low - half, self.high + half
        if self.log:
            value = math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
        else:
            value = low + u * (high - low)
        value = min(max(round(value) if self.whole else rounded(value), self.low), self.high)
        return int(value) if self.whole else float(value)

    @property
    def bounds(self) -> Bounds:
        return Bounds("int" if self.whole else "float", self.low, self.high, self.log)

    def __str__(self) -> str:
        keyword = (
            ("log_int" if self.log else "int") if self.whole else "log" if self.log else "uniform"
        )
        return f"{{{keyword}: [{self.low:g}, {self.high:g}]}}"


@dataclass(frozen=True)
class Normal(Distribution):
    """Normally distributed numbers."""

    mean: float
    std: float

    def at(self, u: float) -> float:
        from scipy.special import ndtri

        tiny = float(np.finfo(float).tiny)
        return rounded(self.mean + self.std * float(ndtri(min(max(u, tiny), 1 - 2**-53))))

    def __str__(self) -> str:
        return f"{{normal: [{self.mean:g}, {self.std:g}]}}"


@dataclass(frozen=True)
class FrozenDistribution(Distribution):
    """A frozen distribution of ``scipy.stats``, or any object with ``rvs(random_state=...)``."""

    distribution: Any

    def at(self, u: float) -> Any:
        """See ``Distribution``; without ``ppf``, a generator that the point seeds draws a value."""
        if hasattr(self.distribution, "ppf"):
            from scipy.stats import rv_discrete

            value = self.distribution.ppf(
                u or 2.0**-54
            )  # not at 0, as that may lie below the support
            is_whole = isinstance(getattr(self.distribution, "dist", None), rv_discrete)
            return int(value) if is_whole else float(value)
        return self.draw(np.random.default_rng(int(u * 2**53)))

    def draw(self, generator: np.random.Generator) -> Any:
        value = self.distribution.rvs(random_state=generator)
        return value.item() if isinstance(value, np.generic | np.ndarray) else value

    def __str__(self) -> str:
        name = getattr(getattr(self.distribution, "dist", None), "name", "")
        return name or type(self.distribution).__name__


@dataclass(frozen=True)
class Format:
    """How a distribution is written, ``{keyword: [first, second]}``.

    Attributes
    ----------
    rule : str
        What the two numbers must be, for errors.
    holds : callable
        Function of the two numbers that tells whether they satisfy the rule.
    make : callable
        Function of the two numbers that returns the distribution.
    """

    rule: str
    holds: Any
    make: Any


FORMATS: dict[str, Format] = {
    "log": Format("0 < low < high", lambda a, b: 0 < a < b, lambda a, b: Range(a, b, log=True)),
    "uniform": Format("low < high", lambda a, b: a < b, Range),
    "normal": Format("a mean and a standard deviation above 0", lambda a, b: b > 0, Normal),
    "int": Format(
        "whole numbers, low < high",
        lambda a, b: a < b and all(float(n).is_integer() for n in (a, b)),
        lambda a, b: Range(int(a), int(b), whole=True),
    ),
    "log_int": Format(
        "whole numbers, 1 <= low < high",
        lambda a, b: 1 <= a < b and all(float(n).is_integer() for n in (a, b)),
        lambda a, b: Range(int(a), int(b), log=True, whole=True),
    ),
}


@dataclass(frozen=True)
class Branch:
    """Parameters that belong together, and the distribution of each."""

    parameters: Mapping[str, Distribution]

    @classmethod
    def of(cls, content: Mapping[str, Any], where: str = "") -> Branch:
        """Read the parameters of a grid or a file; see ``distribution_of``."""
        return cls(
            {str(name): distribution_of(name, value, where) for name, value in content.items()}
        )

    @property
    def distributions(self) -> dict[str, Distribution]:
        """The parameters that have a distribution other than a list of values."""
        return {
            name: values
            for name, values in self.parameters.items()
            if not isinstance(values, Choice)
        }

    def with_parameters(self, parameters: Mapping[str, Distribution]) -> Branch:
        """The branch with further parameters, or with some of its own replaced."""
        return Branch({**self.parameters, **parameters})

    @property
    def size(self) -> int:
        """The number of combinations of its lists."""
        return math.prod(len(values.values) for values in map(_list, self.parameters.values()))

    def combinations(self) -> Iterator[Point]:
        """Every combination of its lists; the last parameter varies the fastest."""
        for values in product(
            *(_list(distribution).values for distribution in self.parameters.values())
        ):
            yield dict(zip(self.parameters, values, strict=True))

    def combination(self, index: int) -> Point:
        """The combination at an index of ``combinations``, without making the others."""
        point: Point = {}
        for name in reversed(list(self.parameters)):
            values = _list(self.parameters[name]).values
            index, i = divmod(index, len(values))
            point[name] = values[i]
        return {name: point[name] for name in self.parameters}

    def draw(self, generator: np.random.Generator) -> Point:
        """Draw a value for each parameter at random."""
        return {
            name: distribution.draw(generator) for name, distribution in self.parameters.items()
        }

    def at(self, point: Sequence[float] | np.ndarray) -> Point:
        """The values at a point of the unit cube, which has a dimension for each parameter."""
        named = zip(self.parameters.items(), point, strict=True)
        return {name: distribution.at(float(u)) for (name, distribution), u in named}


def _list(distribution: Distribution) -> Choice:
    assert isinstance(distribution, Choice)
    return distribution


def distribution_of(name: Any, value: Any, where: str = "") -> Distribution:
    """Read the distribution of a parameter from a grid, a file or a caller.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : Any
        A list of values; a mapping ``{log: [low, high]}``, or with ``uniform``, ``int`` or
        ``log_int``, bounds included; ``{normal: [mean, standard deviation]}``; an object with
        ``rvs``, such as a frozen distribution of scipy; or any other object, the only value.
    where : str
        Beginning of error messages.

    Returns
    -------
    Distribution

    Raises
    ------
    InputError
        The list is empty, or the distribution is malformed.
    """
    if isinstance(value, Distribution):
        return value
    if hasattr(value, "rvs"):
        return FrozenDistribution(value)
    if isinstance(value, Mapping) and len(value) == 1:
        ((keyword, numbers),) = value.items()
        is_pair = isinstance(numbers, list | tuple) and len(numbers) == 2
        if keyword in FORMATS or (
            isinstance(keyword, str) and is_pair and all(map(_is_number, numbers))
        ):
            return _read_distribution(name, keyword, numbers, where)
    is_several = isinstance(value, list | tuple | range | np.ndarray)
    values = tuple(value.tolist() if isinstance(value, np.ndarray) else value) if is_several else ()
    if is_several and not values:
        raise InputError(f"{where}{name} must have a value, got none; leave it out")
    for entry in values:
        if isinstance(entry, Mapping) and len(entry) == 1 and FORMATS.keys() & entry.keys():
            raise InputError(
                f"{where}{name} must be a list of values or one distribution, got {entry} within a "
                "list; leave the others out, or make each a branch"
            )
    return Choice(values if is_several else (value,))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _read_distribution(name: Any, keyword: str, numbers: Any, where: str) -> Distribution:
    """Read a distribution that is written ``{keyword: [first, second]}``; see ``Format``."""
    text = f"{{{keyword}: {numbers}}}"
    if keyword not in FORMATS:
        raise InputError(
            f"{where}{name} must be a list or a distribution of {', '.join(FORMATS)}, got {text}; "
            f"correct it, or write a mapping that is a value as [{text}]"
        )
    form = FORMATS[keyword]
    is_pair = isinstance(numbers, list | tuple) and len(numbers) == 2
    if not is_pair or not all(map(_is_number, numbers)) or not form.holds(*numbers):
        example = "[0, 1]" if keyword in ("uniform", "normal") else "[1, 100]"
        raise InputError(
            f"{where}{name} must have two numbers, {form.rule}, got {text}; for instance "
            f"{{{keyword}: {example}}}"
        )
    distribution: Distribution = form.make(*numbers)
    return distribution


def draw(
    branches: Sequence[Branch], n: int, seed: Sequence[int], sampler: str = "plain"
) -> list[Point]:
    """Draw distinct points of a search space.

    If all parameters have lists, points are drawn from their combinations without replacement; if
    there are no more than ``n``, all are returned. Else each point is drawn from one branch, all
    branches being equally likely.

    Parameters
    ----------
    branches : sequence of Branch
    n : int
        Number of points; fewer are returned if not enough differ.
    seed : sequence of int
        Seed of the generator; the draws depend on nothing else.
    sampler : {"plain", "sobol"}
        "plain" draws each point independently; "sobol" takes scrambled Sobol points of the unit
        cube of each branch (``scipy.stats.qmc``), which fill it evenly.

    Returns
    -------
    list of dict
        A value for each parameter.

    References
    ----------
    Sobol, On the distribution of points in a cube and the approximate evaluation of integrals,
    USSR Computational Mathematics and Mathematical Physics 7, 1967.
    Owen, Scrambled net variance for integrals of smooth functions, Annals of Statistics 25, 1997.
    """
    generator = np.random.default_rng(list(seed))
    if not any(branch.distributions for branch in branches):
        size = sum(branch.size for branch in branches)
        if size <= n:
            return [point for branch in branches for point in branch.combinations()]
        if size < MOST_COUNTED:
            indices = generator.choice(size, n, replace=False).tolist()
            return [_combination(branches, index) for index in indices]
    points = dict[str, Point]()
    draws = _sobol(branches, generator) if sampler == "sobol" else _plain(branches, generator)
    for _, point in zip(range(MOST_TRIES * n), draws, strict=False):
        points.setdefault(repr(point), point)
        if len(points) == n:
            break
    return list(points.values())


def _combination(branches: Sequence[Branch], index: int) -> Point:
    """The combination at an index among the combinations of all branches."""
    for branch in branches:
        if index < branch.size:
            return branch.combination(index)
        index -= branch.size
    raise IndexError(index)


def _plain(branches: Sequence[Branch], generator: np.random.Generator) -> Iterator[Point]:
    while True:
        yield branches[int(generator.integers(len(branches)))].draw(generator)


def _sobol(branches: Sequence[Branch], generator: np.random.Generator) -> Iterator[Point]:
    """Draw from the branches in turn, each at the next of its own Sobol points."""
    points = [unit_points(len(branch.parameters), generator) for branch in branches]
    while True:
        for branch, branch_points in zip(branches, points, strict=True):
            yield branch.at(next(branch_points))


def unit_points(n_dimensions: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Scrambled Sobol points of a unit cube, an endless sequence; each of shape (n_dimensions,)."""
    from scipy.stats.qmc import Sobol

    if not n_dimensions:
        while True:
            yield np.zeros(0)
    sobol = Sobol(n_dimensions, scramble=True, seed=generator)
    while True:
        yield from sobol.random(1)


def refuse_distributions(branches: Mapping[str, Sequence[Branch]], strategy: str) -> None:
    """Refuse distributions for a strategy that tries every value.

    Raises
    ------
    InputError
        A parameter has a distribution.
    """
    for label, label_branches in branches.items():
        for branch in label_branches:
            for name, values in branch.distributions.items():
                raise InputError(
                    f"{opt('strategy')} must draw candidates where a parameter has a distribution, "
                    f"as {name} of {label} has, {values}, got {strategy}; use "
                    f"{opt('strategy', 'random')}, or list values"
                )
