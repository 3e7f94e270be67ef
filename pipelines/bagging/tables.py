"""Rows of a bagging run as tables: cells, candidates, members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.nn.space import OF_CONVOLUTION, PARAMETERS
from pipelines.run_folder import columns
from pipelines.search.ranking import reduce_scores, results_frame

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

PLACE = list(columns.BAGGING_CELL)
OF_MEMBER = ("cv_loss", "training_error", "test_error", "cv_error", "out_of_bag_error")


def tabulate(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as the table ``cv_results``, sorted by member, candidate and fold."""
    return results_frame(rows, columns.OF_BAGGING, PLACE)


def reduce_candidates(
    results: pd.DataFrame, n_folds: int, client: Client | None = None
) -> pd.DataFrame:
    """Reduce the rows to a line for each candidate: parameters, mean loss and error.

    Parameters
    ----------
    client : distributed.Client, optional
        See ``reduce_scores``.

    Returns
    -------
    table with member, candidate, the hyper-parameters, loss_mean, loss_std, error_mean,
    error_std, n_ok, rank (1 has the smallest loss of its member) and is_best; a candidate
    that lacks a fold has no means. Best first within each member.
    """
    scored = results.assign(score=-results["loss"])
    means = reduce_scores(scored, PLACE[:2], n_folds, client)
    means["loss_mean"], means["loss_std"] = -means.pop("score_mean"), means.pop("score_std")
    means = means.sort_values(["member", "rank"], ignore_index=True)
    means["rank"] = means.groupby("member").cumcount() + 1
    means["is_best"] = (means["rank"] == 1) & means["loss_mean"].notna()
    parameters = results.groupby(PLACE[:2], as_index=False)[["network", *PARAMETERS]].first()
    table = parameters.merge(means, on=PLACE[:2])
    return table.sort_values(["member", "rank"], ignore_index=True)


def tabulate_members(
    candidates: pd.DataFrame,
    refits: Mapping[int, Mapping[str, Any]],
    test_errors: Mapping[int, float],
) -> pd.DataFrame:
    """Return the table of the members: what was chosen for each, and how good it turned out.

    Parameters
    ----------
    candidates : what ``reduce_candidates`` gave
    refits : row of the refit of every member, with ``training_error``
    test_errors : fraction of the test samples that a member gets wrong, by member
    """
    import pandas as pd

    best = candidates[candidates["is_best"]].set_index("member")
    names = [name for name in PARAMETERS if name not in OF_CONVOLUTION or best[name].any()]
    rows = []
    for member, test_error in sorted(test_errors.items()):
        chosen, refitted = best.loc[member], refits[member]
        numbers = (
            chosen["loss_mean"], refitted["training_error"], test_error,
            chosen["error_mean"], refitted["error"],
        )  # fmt: skip
        rows.append(
            {"member": member}
            | {name: chosen[name] for name in names}
            | dict(zip(OF_MEMBER, numbers, strict=True))
        )
    return pd.DataFrame(rows)
