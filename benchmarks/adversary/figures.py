"""The figures of a run folder, whether they agree among themselves, and how two runs differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def read(folder: Path) -> dict[str, Any]:
    """What does not depend on time or place."""
    record = json.loads((folder / "run.json").read_text())
    if record["status"] != "finished":
        raise ValueError(f"exit status 0, but run.json says {record['status']}")
    figures: dict[str, Any] = {"n_train": (record.get("dataset") or {}).get("n_train") or 0}
    if (path := folder / "ranks.parquet").exists():
        ranks = pd.read_parquet(path)
        figures["ranks"] = dict(zip(ranks["node"].map(str), ranks.iloc[:, 1], strict=True))
    if (path := folder / "candidates.parquet").exists():
        table = pd.read_parquet(path)
        names = [
            n for n in ("algorithm", "params", "C", "gamma", "epsilon", "member") if n in table
        ]
        names += ["candidate"] if "member" in table else []
        column = next(n for n in ("error_mean", "score_mean", "loss_mean", "loss") if n in table)
        if table[column].isna().all() and "score_mean" in table:
            column = "score_mean"
        keys = [
            tuple(_rounded(value) for value in row) for row in table[names].itertuples(index=False)
        ]
        figures["candidates"] = dict(zip(keys, table[column], strict=True))
    if (path := folder / "test_predictions.parquet").exists():
        table = pd.read_parquet(path)
        figures["wrong"] = table["true"].to_numpy() != table["predicted"].to_numpy()
        figures["predicted"] = table["predicted"].to_numpy()
    if (path := folder / "epochs.parquet").exists():
        table = pd.read_parquet(path)
        figures["losses"] = table[next(n for n in table if "loss" in str(n))].to_numpy()
    return figures


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def difference(folder: Path, twin: Path, rows: int = 0, keys: bool = True) -> str:
    """How the figures differ by more than ``rows`` rows, "" if they do not.

    keys : whether candidates have equal parameters; else they are compared by size
    """
    here, reference = read(folder), read(twin)
    if sorted(here) != sorted(reference):
        return f"has {sorted(here)}, not {sorted(reference)}"
    if here["n_train"] != reference["n_train"]:
        return f"{here['n_train']} training rows, not {reference['n_train']}"
    if "ranks" in here:
        return ranks_differ(here["ranks"], reference["ranks"], 1e-8)
    slack = 1e-9 + rows / max(reference["n_train"], 1)
    if "candidates" in reference:
        candidates, twin_candidates = here["candidates"], reference["candidates"]
        if keys and sorted(map(str, candidates)) != sorted(map(str, twin_candidates)):
            return f"candidates {list(candidates)[:3]}, not {list(twin_candidates)[:3]}"
        a = np.array(
            [candidates[key] for key in twin_candidates] if keys else sorted(candidates.values()),
            dtype=float,
        )
        b = np.array(
            list(twin_candidates.values()) if keys else sorted(twin_candidates.values()),
            dtype=float,
        )
        if len(a) != len(b) or not np.allclose(a, b, rtol=0, atol=slack, equal_nan=True):
            return f"scores {a[:4]}, not {b[:4]}"
    if (
        "wrong" in reference
        and abs(int(here["wrong"].sum()) - int(reference["wrong"].sum())) > rows
    ):
        return f"{here['wrong'].sum()} test errors, not {reference['wrong'].sum()}"
    if "losses" in reference and not np.allclose(here["losses"], reference["losses"], rtol=1e-3):
        return f"losses {here['losses'][:3]}, not {reference['losses'][:3]}"
    return ""


def ranks_differ(ranks: dict[str, float], truth: dict[str, float], tol: float) -> str:
    if sorted(ranks) != sorted(truth):
        return f"nodes {sorted(ranks)[:5]} ({len(ranks)}), not {sorted(truth)[:5]} ({len(truth)})"
    worst = max(abs(ranks[node] - truth[node]) for node in truth)
    return f"a rank differs by {worst:.1e}" if not worst <= tol else ""


def inconsistency(folder: Path) -> str:
    """What contradicts something else in a finished run, "" if nothing does."""
    record = json.loads((folder / "run.json").read_text())
    if record["status"] != "finished":
        return f"exit status 0, but run.json says {record['status']}"
    if (path := folder / "ranks.parquet").exists():
        values = pd.read_parquet(path).iloc[:, 1].to_numpy()
        if not (np.isfinite(values).all() and (values >= 0).all() and values.sum() < 1 + 1e-6):
            return f"ranks add up to {values.sum()}"
    if not (folder / "candidates.parquet").exists() or record["command"] == "nn_bagging":
        return ""
    table, cells = (pd.read_parquet(folder / f"{n}.parquet") for n in ("candidates", "cv_results"))
    cells = cells[cells["stage"] == "search"]
    if len(table) == 0 or table["score_mean"].isna().all():
        return "a finished run without a score"
    names = [
        name for name in ("algorithm", "params", "C", "gamma") if name in table and name in cells
    ]
    means = cells.groupby(names)["score"].mean()
    listed = table.set_index(names)["score_mean"]
    complete = table.set_index(names)["n_ok"] == cells.groupby(names).size().max()
    gap = (means - listed)[complete.reindex(means.index)].abs().max()
    if gap > 1e-9:
        return f"a candidate's mean score differs from its cells by {gap:.1e}"
    top = table["score_mean"].iloc[0]
    if np.isfinite(top) and top < table.loc[complete.to_numpy(), "score_mean"].max() - 1e-12:
        return "the first candidate is not the best"
    if (path := folder / "test_predictions.parquet").exists() and record.get(
        "test_error"
    ) is not None:
        rows = pd.read_parquet(path)
        error = float((rows["true"] != rows["predicted"]).mean())
        kept_error: Any = record["test_error"]
        kept_error = kept_error.get("error") if isinstance(kept_error, dict) else kept_error
        if record["dataset"]["task"] == "classification" and abs(error - float(kept_error)) > 1e-9:
            return f"test error {kept_error}, but the predictions have {error}"
    return ""
