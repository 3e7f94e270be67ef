"""A kernel, by its name and the parameters that do not vary over a grid."""

from dataclasses import dataclass

KERNELS = ("rbf", "linear", "poly", "sigmoid")

# The kernel itself in the place of rows: (n, n) to fit, rows against support vectors to predict.
PRECOMPUTED = "precomputed"


@dataclass(frozen=True)
class Kernel:
    """A kernel's name and the parameters that do not vary over a grid."""

    name: str = "rbf"
    degree: int = 3
    coef0: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in (*KERNELS, PRECOMPUTED):
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {self.name!r}")

    @property
    def of_distances(self) -> bool:
        return self.name == "rbf"

    @property
    def is_given(self) -> bool:
        return self.name == PRECOMPUTED

    @property
    def is_definite(self) -> bool:
        """Whether it is positive (semi-)definite for certain."""
        return self.name not in ("sigmoid", PRECOMPUTED)


RBF = Kernel()
