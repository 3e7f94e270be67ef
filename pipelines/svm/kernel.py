"""A kernel, by its name and the parameters that do not vary over a grid."""

from dataclasses import dataclass

KERNELS = ("rbf", "linear", "poly", "sigmoid")


@dataclass(frozen=True)
class Kernel:
    """A kernel's name and the parameters that do not vary over a grid."""

    name: str = "rbf"
    degree: int = 3
    coef0: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {self.name!r}")

    @property
    def of_distances(self) -> bool:
        return self.name == "rbf"


RBF = Kernel()
