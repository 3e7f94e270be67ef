"""A plan of device memory: how much of a search it holds at once."""

from dataclasses import dataclass
from math import isqrt, prod

import numpy as np

from pipelines.svm.cuda.hard import ROWS, exact_source, hard_shape
from pipelines.svm.cuda.products import BLOCK
from pipelines.svm.cuda.smo import STATE_BYTES, matrix_shape, members_width

# The rest is for the allocator's rounding and the work space of libraries.
_USABLE = 0.9

# Fraction of the memory for the arrays of rows that are scored, which are allocated anew each time.
_SCORE_FRACTION = 0.1
_FEWEST_SCORE_ROWS, _MOST_SCORE_ROWS = 64, 1 << 14

# Fractions of the memory for one product of blocks of rows, with five float64 arrays of its shape;
# for the state of the thread blocks that solve; and for hard problems.
_PRODUCT_FRACTION, _PRODUCT_BYTES, _FEWEST_PRODUCT_ROWS = 1 / 16, 5 * 8, 64
_BLOCK_FRACTION, _FEWEST_MEMBERS = 1 / 6, 64
_HARD_FRACTION, _FEWEST_HARD_MEMBERS = 1 / 4, 64


@dataclass(frozen=True)
class MemoryPlan:
    """What device memory holds during a launch.

    Attributes
    ----------
    whole : bool
        Whether it holds the products of all rows, or only the products of one pair.
    n_gammas : int
        How many gammas a launch solves.
    score_rows : int
        How many rows are scored at once.
    product_rows : int
        Rows and columns of one product of blocks of rows.
    n_blocks, members : int
        The most thread blocks that solve, and the members of the working set of each.
    hard_members : int
        Members of the working set of a hard problem; 0 for SMO alone.
    n_bytes : int
        Bytes of all of this together.
    """

    whole: bool
    n_gammas: int
    score_rows: int
    product_rows: int = BLOCK
    n_blocks: int | None = None
    members: int | None = None
    hard_members: int | None = None
    n_bytes: int = 0


def plan_memory(
    sizes: np.ndarray,
    n_features: int,
    n_C: int,
    n_gammas: int,
    n_folds: int,
    one_vs_one: bool,
    free_bytes: int,
    *,
    n_blocks: int = 528,
    members: int = 1920,
    block_size: int = 128,
    hard_members: int = 0,
) -> MemoryPlan:
    """Plan the use of ``free_bytes`` of device memory.

    If the n x n products do not fit, ``ovo`` is solved pair by pair, and the products of the rows
    to score are computed block by block. If they fit once but not twice, problems with many
    features are solved by SMO alone.

    Parameters
    ----------
    sizes : int array of shape (n_classes,)
        Rows of each class.
    n_features, n_C, n_gammas, n_folds : int
    one_vs_one : bool
    free_bytes : int
    n_blocks, members, block_size : int
        Blocks of the solver, and members of the working set and threads of each. If memory is
        short, members are reduced first, then blocks.
    hard_members : int
        Members of the working set of a hard problem; also reduced, in the end to 0.

    Returns
    -------
    MemoryPlan

    Raises
    ------
    MemoryError
        Not even the smallest plan fits; the message says what it needs and what would help.
    """
    n, n_classes, ordered = int(sum(sizes)), len(sizes), sorted(map(int, sizes))
    largest_class, largest_pair = ordered[-1], sum(ordered[-2:])
    largest = largest_pair if one_vs_one else n
    n_problems = n_classes * (n_classes - 1) // 2 if one_vs_one else n_classes
    usable = int(_USABLE * free_bytes)

    def block_bytes() -> int:
        rows, width = matrix_shape(members_width(members, block_size))
        return STATE_BYTES * largest + 4 * rows * width

    def hard_bytes(side: int) -> int:
        """Bytes of hard problems, where the products of ``side`` rows are held."""
        source = 8 * n * n_features if of_rows else 4 * side * side
        return source + n_blocks * 8 * prod(hard_shape(members_width(hard_members, block_size)))

    n_blocks = min(n_blocks, n_gammas * n_folds * n_problems)
    values = max(0, int(_BLOCK_FRACTION * usable) // n_blocks - STATE_BYTES * largest) // 4
    fit = max(0, isqrt(values) - 1) // block_size * block_size
    members = min(members, largest, max(fit, _FEWEST_MEMBERS))
    n_blocks = max(1, min(n_blocks, int(_BLOCK_FRACTION * usable) // block_bytes()))
    values = int(_HARD_FRACTION * usable) // n_blocks // 16
    fit = min(hard_members, max(0, isqrt(values) - 2) // block_size * block_size)
    hard_members = fit if fit >= min(hard_members, _FEWEST_HARD_MEMBERS) else 0
    of_rows = exact_source(n_features) == ROWS
    product_rows = int((_PRODUCT_FRACTION * usable / _PRODUCT_BYTES) ** 0.5)
    product_rows = min(n, BLOCK, max(_FEWEST_PRODUCT_ROWS, product_rows))
    # Rows in float64 and as given; a block of products with its temporaries; the flat tables of
    # the problems; the state of the thread blocks.
    common = (
        16 * n * n_features
        + _PRODUCT_BYTES * product_rows**2
        + 16 * n_folds * n * (n_classes - 1 if one_vs_one else n_classes)
        + n_blocks * block_bytes()
    )
    # The multipliers, and the sums that a path starts from.
    gamma = n * n_classes * n_folds * (4 * n_C + 8)
    sums = n_classes * n_classes if one_vs_one else 2 * n_classes
    score_row = 4 * (largest_class + n_C * (sums + 4 * n_problems))
    ways = [(True, hard_members), (False, hard_members)]
    if hard_members and not of_rows:
        ways = [(True, hard_members), (True, 0), (False, hard_members), (False, 0)]
    for whole, hard in ways if one_vs_one else ways[: len(ways) // 2]:
        side = n if whole else largest_pair
        fixed = common + 4 * side * side + (hard_bytes(side) if hard else 0)
        row = score_row if whole else score_row + 5 * 8 * n
        least = fixed + gamma + _FEWEST_SCORE_ROWS * row
        if least <= usable:
            break
    else:
        way_out = "fewer rows, folds or C"
        if not one_vs_one:
            way_out = "decision='ovo', fewer rows or fewer C"
        raise MemoryError(
            f"decision={'ovo' if one_vs_one else 'ovr'!r} needs {least:.3g} bytes of device "
            f"memory for {n} rows, got {free_bytes}; use {way_out}"
        )
    n_wanted = max(_FEWEST_SCORE_ROWS, int(_SCORE_FRACTION * usable // row))
    rows = min(
        n_wanted, _MOST_SCORE_ROWS, max(_FEWEST_SCORE_ROWS, n), (usable - fixed - gamma) // row
    )
    fit = max(1, min(n_gammas, (usable - fixed - rows * row) // gamma))
    return MemoryPlan(
        whole,
        fit,
        rows,
        product_rows,
        n_blocks,
        members,
        hard,
        fixed + fit * gamma + rows * row,
    )
