"""Spaces of candidates: lists and distributions of parameters, in branches, and draws from them.

A space is a list of branches, each of which gives every parameter of its own a distribution, as
scikit-learn's list of grids does; parameters of one branch need have no meaning in another. Every
distribution maps a point of the unit interval to a value, so that evenly spread points (Sobol), a
generator of random numbers and samplers of others draw from the same objects.
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

N_ITER = 60  # candidates that are drawn where no number is given
MOST_TRIES = 20  # draws for each candidate that is to differ from all others
MOST_COUNTED = 2**62  # combinations of lists that a place can number

Point = dict[str, Any]  # a value of each parameter


@dataclass(frozen=True)
class Bounds:
    """What a sampler of another package needs to know of a distribution.

    Attributes
    ----------
    value_type : what is to be suggested: a float or an int between bounds, both included; one of
        ``n`` places of a list; or a point of the unit interval, which ``Distribution.at`` maps
    low, high : the bounds; of a list the first and last place
    log : whether the logarithm is what is uniform
    """

    value_type: Literal["float", "int", "place", "unit"]
    low: float
    high: float
    log: bool = False


class Distribution(ABC):
    """What values a parameter has, and how likely."""

    @abstractmethod
    def at(self, u: float) -> Any:
        """The value at a point of [0, 1): the inverse of the distribution function."""

    @property
    def bounds(self) -> Bounds:
        """See ``Bounds``; what ``at`` alone can tell is suggested as a point."""
        return Bounds("unit", 0.0, 1.0)

    def draw(self, generator: np.random.Generator) -> Any:
        """Draw a value."""
        return self.at(float(generator.random()))


def rounded(value: float) -> float:
    """A number to as many digits as tables show."""
    return float(f"{value:.6g}")


@dataclass(frozen=True)
class Choice(Distribution):
    """A list of values, each as likely as the others."""

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
    """Numbers between bounds, both included: uniform, or of uniform logarithms.

    Attributes
    ----------
    low, high : float
    log : whether the logarithm is uniform
    whole : whether the numbers are whole ones
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def at(self, u: float) -> float:
        """See ``Distribution``; a whole number stands for all that is nearest to it."""
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
    """Numbers about a mean."""

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
    """A frozen distribution of ``scipy.stats``, or what else has ``rvs(random_state=...)``."""

    distribution: Any

    def at(self, u: float) -> Any:
        """See ``Distribution``; what has no ``ppf`` draws from a generator that the point seeds."""
        if hasattr(self.distribution, "ppf"):
            from scipy.stats import rv_discrete

            value = self.distribution.ppf(u or 2.0**-54)  # 0 may lie below what it gives
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
    """A distribution as it is written: ``{kind: [first, second]}``."""

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
    """Parameters that go together, and the values that each may have."""

    parameters: Mapping[str, Distribution]

    @classmethod
    def of(cls, content: Mapping[str, Any], where: str = "") -> Branch:
        """Read the parameters of a grid or a file; see ``distribution_of``."""
        return cls(
            {str(name): distribution_of(name, value, where) for name, value in content.items()}
        )

    @property
    def distributions(self) -> dict[str, Distribution]:
        """Those of its parameters that no list holds."""
        return {
            name: values
            for name, values in self.parameters.items()
            if not isinstance(values, Choice)
        }

    def with_parameters(self, parameters: Mapping[str, Distribution]) -> Branch:
        """The branch with further parameters, or others in the place of its own."""
        return Branch({**self.parameters, **parameters})

    @property
    def size(self) -> int:
        """How many combinations its lists have."""
        return math.prod(len(values.values) for values in map(_list, self.parameters.values()))

    def combinations(self) -> Iterator[Point]:
        """Every combination of its lists; the last parameter varies the fastest."""
        for values in product(
            *(_list(distribution).values for distribution in self.parameters.values())
        ):
            yield dict(zip(self.parameters, values, strict=True))

    def combination(self, index: int) -> Point:
        """The combination at a place of ``combinations``."""
        point: Point = {}
        for name in reversed(list(self.parameters)):
            values = _list(self.parameters[name]).values
            index, i = divmod(index, len(values))
            point[name] = values[i]
        return {name: point[name] for name in self.parameters}

    def draw(self, generator: np.random.Generator) -> Point:
        """Draw a value of each parameter."""
        return {
            name: distribution.draw(generator) for name, distribution in self.parameters.items()
        }

    def at(self, point: Sequence[float] | np.ndarray) -> Point:
        """The values at a point of the unit cube, which has a side for each parameter."""
        named = zip(self.parameters.items(), point, strict=True)
        return {name: distribution.at(float(u)) for (name, distribution), u in named}


def _list(distribution: Distribution) -> Choice:
    assert isinstance(distribution, Choice)
    return distribution


def distribution_of(name: Any, value: Any, where: str = "") -> Distribution:
    """The distribution of a parameter as a grid, a file or a caller has it.

    Parameters
    ----------
    name : of the parameter
    value : a list; ``{log: [low, high]}``, ``uniform``, ``int``, ``log_int``, all bounds included,
        or ``{normal: [mean, standard deviation]}``; an object with ``rvs``, such as a frozen
        distribution of scipy; or anything else, which is the one value of a list
    where : begins the message of an error

    Raises
    ------
    InputError
        A list is empty, or a distribution is none.
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
    """Read ``{kind: [first, second]}``."""
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
    """Draw candidates, no two alike.

    Where all parameters have lists, the draws are from all combinations, without replacement: all
    of them where there are no more. Else each draw is from one branch, all equally likely.

    Parameters
    ----------
    n : how many; there are fewer where no more differ
    seed : of the generator, which depends on nothing else
    sampler : "plain", each by itself; "sobol", scrambled Sobol points of the unit cube of each
        branch (``scipy.stats.qmc``; Sobol, USSR Comput. Math. Math. Phys. 7, 1967; Owen, Ann.
        Statist. 25, 1997), which fill it evenly
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
    """The combination at a place among those of all branches."""
    for branch in branches:
        if index < branch.size:
            return branch.combination(index)
        index -= branch.size
    raise IndexError(index)


def _plain(branches: Sequence[Branch], generator: np.random.Generator) -> Iterator[Point]:
    while True:
        yield branches[int(generator.integers(len(branches)))].draw(generator)


def _sobol(branches: Sequence[Branch], generator: np.random.Generator) -> Iterator[Point]:
    """Draw from one branch after the other, each at the next of its own points."""
    points = [unit_points(len(branch.parameters), generator) for branch in branches]
    while True:
        for branch, branch_points in zip(branches, points, strict=True):
            yield branch.at(next(branch_points))


def unit_points(n_dimensions: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Scrambled Sobol points of a unit cube, without end, each of shape (n_dimensions,)."""
    from scipy.stats.qmc import Sobol

    if not n_dimensions:
        while True:
            yield np.zeros(0)
    sobol = Sobol(n_dimensions, scramble=True, seed=generator)
    while True:
        yield from sobol.random(1)


def refuse_distributions(branches: Mapping[str, Sequence[Branch]], strategy: str) -> None:
    """Refuse distributions where every value is to be tried."""
    for label, label_branches in branches.items():
        for branch in label_branches:
            for name, values in branch.distributions.items():
                raise InputError(
                    f"{opt('strategy')} must draw candidates where a parameter has a distribution, "
                    f"as {name} of {label} has, {values}, got {strategy}; use "
                    f"{opt('strategy', 'random')}, or list values"
                )
