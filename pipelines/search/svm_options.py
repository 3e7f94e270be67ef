"""The options of ``svm_grid``, beside those that every command shares."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.run.options import (
    RunOptions,
    at_least,
    finite,
    increasing_log10,
    inside_unit_interval,
    option,
)


def _positive_or_unlimited(value: int) -> str | None:
    return None if value == -1 or value >= 1 else "at least 1, or -1 for no limit"


def _positive(value: float) -> str | None:
    return None if 0 < value < 1e6 else "above 0 and below 1000000"


@dataclass(frozen=True)
class Options(RunOptions):
    """Options of ``svm_grid``."""

    n_c: int = option(8, "number of C", parse=int, check=at_least(1), metavar="N")
    n_gamma: int = option(8, "number of gamma", parse=int, check=at_least(1), metavar="N")
    log_c: tuple[float, float] = option(
        (-3.0, 6.0), "bounds of log10 C",
        parse=float, nargs=2, check=increasing_log10, metavar=("FROM", "TO"),
    )  # fmt: skip
    log_gamma: tuple[float, float] = option(
        (-6.0, -2.0), "bounds of log10 gamma",
        parse=float, nargs=2, check=increasing_log10, metavar=("FROM", "TO"),
    )  # fmt: skip
    folds: int = option(
        5, "folds of the cross-validation", parse=int, check=at_least(2), metavar="N"
    )
    decision: str = option("ovo", "one-vs-one, as LIBSVM, or one-vs-rest", choices=("ovo", "ovr"))
    kernel: str = option(
        "rbf", "kernel of the machine", choices=("rbf", "linear", "poly", "sigmoid")
    )
    degree: int = option(3, "degree of --kernel poly", parse=int, check=at_least(1), metavar="N")
    coef0: float = option(
        0.0, "constant of --kernel poly and sigmoid", parse=float, check=finite, metavar="NUMBER"
    )
    class_weight: str = option(
        "none", "balanced gives small classes a larger C", choices=("none", "balanced")
    )
    scoring: str = option(
        "accuracy",
        "what the best candidate is chosen by: any scorer of scikit-learn that needs predictions "
        "or decision values, such as balanced_accuracy, f1_macro or, of two classes, roc_auc",
        metavar="NAME",
    )
    probability: bool = option(
        False, "calibrate class probabilities for the best candidate, on the same folds"
    )
    solver: str = option("auto", "auto, path, sklearn, sklearnex or cuml", metavar="NAME")
    tol: float = option(
        1e-3, "tolerance of the stopping criterion",
        parse=float, check=inside_unit_interval,
        metavar="TOL",
    )  # fmt: skip
    max_iter: int = option(
        -1, "most iterations of one binary problem, -1 for no limit",
        parse=int, check=_positive_or_unlimited, metavar="N",
    )  # fmt: skip
    memory: float = option(
        4.0, "GiB of kernel matrices that --solver path may hold before it works in blocks",
        parse=float, check=_positive, metavar="GIB", changes_results=False,
    )  # fmt: skip
