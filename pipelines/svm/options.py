"""The options of a kernel SVM, for every command that fits one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pipelines.run.options import Rule, at_least, finite, number, option, positive, rule
from pipelines.svm.kernel import KERNELS
from pipelines.svm.settings import DECISIONS, Settings


def _positive_or_default(value: int) -> str | None:
    if value != -1 and value < 1:
        return "at least 1, or -1 for LIBSVM's limit"
    # LIBSVM counts iterations in 32 bits.
    return None if value < 2**31 else f"at most {2**31 - 1:,}"


APPROXIMATIONS, LANDMARKS = ("none", "nystroem", "auto"), 1000

# The rounding of residuals in double precision must stay below the tolerance.
_TOLERANCE = rule("at least 1e-12 and below 1", lambda value: 1e-12 <= value < 1)


@dataclass(frozen=True)
class SVMOptions:
    """Options of the solver and the model: all but C and gamma."""

    group: ClassVar[str] = "model"

    decision: str = option("ovo", "one-vs-one, as in LIBSVM, or one-vs-rest", choices=DECISIONS)
    kernel: str = option("rbf", "kernel of the SVM", choices=KERNELS)
    degree: int = option(3, "degree of --kernel poly", parse=int, rule=at_least(1), metavar="N")
    coef0: float = option(
        0.0, "constant of --kernel poly and sigmoid", parse=float, rule=finite, metavar="NUMBER"
    )
    class_weight: str = option(
        "none",
        "balanced: C inversely proportional to class frequencies",
        choices=("none", "balanced"),
    )
    solver: str = option(
        "auto", "auto, path, sklearn, sklearnex, cuml, or that of another package", metavar="NAME"
    )
    approximate: str = option(
        "none",
        "nystroem: approximate the kernel by landmarks, for many rows in little time; auto: only "
        "if the kernel exceeds --memory, or its fits --time-budget",
        choices=APPROXIMATIONS,
    )
    landmarks: int | None = number(
        None, "with --approximate: rows that serve as landmarks (default: 1000)", rule=at_least(1)
    )
    tol: float = option(
        1e-3, "tolerance of the stopping criterion", parse=float, rule=_TOLERANCE, metavar="TOL"
    )
    max_iter: int = option(
        -1,
        "maximum iterations of a binary problem at one C; -1: LIBSVM's limit, max(10,000,000, "
        "100 rows), with --solver path, and none with the others",
        parse=int,
        rule=Rule("at least 1, or -1", _positive_or_default),
        metavar="N",
    )
    memory: float = option(
        4.0,
        "GiB of kernel matrices that --solver path may hold before it works in blocks",
        parse=float,
        rule=positive,
        metavar="GIB",
        changes_results=False,
    )

    def settings(self, **of_run: Any) -> Settings:
        """These options as the solver's settings; ``of_run`` are their other fields."""
        names = ("decision", "tol", "max_iter", "kernel", "degree", "coef0")
        return Settings(
            **{name: getattr(self, name) for name in names},
            class_weight=None if self.class_weight == "none" else self.class_weight,
            n_landmarks=(self.landmarks or LANDMARKS) if self.approximate == "nystroem" else 0,
            memory_bytes=int(self.memory * 2**30),
            **of_run,
        )
