"""Plan how much of a search the device's memory holds at once."""

from dataclasses import dataclass
from math import isqrt, prod

from pipelines.svm.cuda.distances import BLOCK
from pipelines.svm.cuda.hard import hard_shape
from pipelines.svm.cuda.smo import STATE_BYTES, matrix_shape, members_width

# Left to the allocator's rounding and to the libraries' own work space.
_USABLE = 0.9

# Of the memory, for the blocks that score: they are made and dropped.
_SCORE_SHARE = 0.1
_FEWEST_SCORE_ROWS, _MOST_SCORE_ROWS = 64, 1 << 14

# Of the memory, for what a product of blocks of rows leaves behind, float64 arrays of
# its shape, for the state of the blocks that solve, and for what hard problems take.
_PRODUCT_SHARE, _PRODUCT_BYTES, _FEWEST_PRODUCT_ROWS = 1 / 16, 5 * 8, 64
_BLOCK_SHARE, _FEWEST_MEMBERS = 1 / 6, 64
_HARD_SHARE, _FEWEST_HARD_MEMBERS = 1 / 8, 64


@dataclass(frozen=True)
class Plan:
    """The contents of device memory during a launch.

    whole : whether the shared products of all rows are held; else those of a pair
    n_gammas : how many gammas a launch solves
    score_rows : how many rows are scored at once
    product_rows : rows and columns of one product of blocks of rows
    n_blocks, members : blocks that solve at most, and the members of each
    hard_members : those of a problem that is hard, 0 for SMO alone
    fixed_bytes, gamma_bytes, score_row_bytes : what they need
    """

    whole: bool
    n_gammas: int
    score_rows: int
    fixed_bytes: int
    gamma_bytes: int
    score_row_bytes: int
    product_rows: int = BLOCK
    n_blocks: int | None = None
    members: int | None = None
    hard_members: int | None = None

    @property
    def total_bytes(self) -> int:
        scoring = self.score_rows * self.score_row_bytes
        return self.fixed_bytes + self.n_gammas * self.gamma_bytes + scoring


def block_bytes(members: int, largest: int, block_size: int) -> int:
    """Return the bytes of a block that solves problems of ``largest`` rows with so many members."""
    rows, width = matrix_shape(members_width(members, block_size))
    return STATE_BYTES * largest + 4 * rows * width


def _divide_blocks(
    n_blocks: int, members: int, largest: int, block_size: int, room: int
) -> tuple[int, int]:
    """Return blocks and members of each that take no more than ``room``; 1 block at least.

    Members are given up first, then blocks.
    """
    values = max(0, room // n_blocks - STATE_BYTES * largest) // 4
    fit = max(0, isqrt(values) - 1) // block_size * block_size
    members = min(members, max(fit, _FEWEST_MEMBERS))
    return max(1, min(n_blocks, room // block_bytes(members, largest, block_size))), members


def hard_bytes(members: int, block_size: int) -> int:
    """Return the bytes of a block for hard problems of ``members`` rows; 0 for none."""
    return 8 * prod(hard_shape(members_width(members, block_size))) if members else 0


def _hard_members(most: int, n_blocks: int, block_size: int, room: int) -> int:
    """Return members that take no more than ``room``, up to ``most``; 0 where they would be few."""
    fit = max(0, isqrt(room // n_blocks // 16) - 2) // block_size * block_size
    members = min(most, fit)
    return members if members >= min(most, _FEWEST_HARD_MEMBERS) else 0


def plan_memory(
    n: int,
    n_features: int,
    n_classes: int,
    n_C: int,
    n_gammas: int,
    n_folds: int,
    decision: str,
    free_bytes: int,
    *,
    largest_problem: int | None = None,
    largest_pair: int | None = None,
    largest_class: int | None = None,
    n_blocks: int = 528,
    members: int = 1920,
    block_size: int = 128,
    hard_members: int = 0,
) -> Plan:
    """Divide ``free_bytes`` of device memory.

    Where the n x n shared products do not fit, ``ovo`` is solved pair by pair, and
    the products of the rows to score are made block by block.

    largest_problem, largest_pair, largest_class : rows, equal classes by default
    n_blocks, members, block_size : blocks of the solver, members and threads of each;
        fewer blocks and members where memory is short
    hard_members : those where a problem is hard; fewer, too, or none

    Raises
    ------
    MemoryError
        With what is needed, what was given and the way out.
    """
    largest_class = largest_class or -(-n // n_classes)
    largest_pair = largest_pair or min(n, 2 * largest_class)
    pairs = decision == "ovo" or n_classes == 2
    largest_problem = largest_problem or (largest_pair if pairs else n)
    n_problems = n_classes * (n_classes - 1) // 2 if pairs else n_classes
    usable = int(_USABLE * free_bytes)
    # Rows once in float64 and once as given; a product's float64 block with its
    # temporaries; the flat tables; the blocks' state.
    table_rows = n_folds * n * (n_classes - 1 if pairs else n_classes)
    n_blocks, members = _divide_blocks(
        min(n_blocks, n_gammas * n_folds * n_problems), min(members, largest_problem),
        largest_problem, block_size, int(_BLOCK_SHARE * usable),
    )  # fmt: skip
    hard_members = _hard_members(hard_members, n_blocks, block_size, int(_HARD_SHARE * usable))
    product_rows = int((_PRODUCT_SHARE * usable / _PRODUCT_BYTES) ** 0.5)
    product_rows = min(n, BLOCK, max(_FEWEST_PRODUCT_ROWS, product_rows))
    common = (
        16 * n * n_features
        + _PRODUCT_BYTES * product_rows**2
        + 16 * table_rows
        + n_blocks * block_bytes(members, largest_problem, block_size)
        + n_blocks * hard_bytes(hard_members, block_size)
        + (8 * n * n_features if hard_members else 0)
    )
    # The multipliers, and the sums that a path starts from.
    gamma = n * n_classes * n_folds * (4 * n_C + 8)
    sums = n_classes * n_classes if pairs else 2 * n_classes
    score_row = 4 * (largest_class + n_C * (sums + 4 * n_problems))
    for whole in (True, False):
        side = n if whole else largest_pair
        fixed = common + 4 * side * side
        row = score_row if whole else score_row + 5 * 8 * n
        least = fixed + gamma + _FEWEST_SCORE_ROWS * row
        if least <= usable:
            break
        if not (pairs and whole):
            way_out = "fewer rows, folds or C" if pairs else "decision='ovo', fewer rows or fewer C"
            raise MemoryError(
                f"decision={decision!r} needs {least:.3g} bytes of device memory for {n} rows, "
                f"got {free_bytes}; use {way_out}"
            )
    wanted = max(_FEWEST_SCORE_ROWS, int(_SCORE_SHARE * usable // row))
    rows = min(wanted, _MOST_SCORE_ROWS, max(_FEWEST_SCORE_ROWS, n))
    rows = min(rows, (usable - fixed - gamma) // row)
    fit = (usable - fixed - rows * row) // gamma
    return Plan(
        whole, max(1, min(n_gammas, fit)), rows, fixed, gamma, row, product_rows, n_blocks,
        members, hard_members,
    )  # fmt: skip
