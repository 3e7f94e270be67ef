"""A small folder of a run of nn_bagging, written the way a run leaves it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

N_MEMBERS, N_CANDIDATES, N_FOLDS, N_TEST = 6, 4, 3, 120
WORKERS = ("tcp://127.0.0.1:40001", "tcp://127.0.0.1:40002")
RULE = "Defer to a human: fewer than 75 % of the members agree, or they are unsure."


def write_bagging_run(folder: Path) -> Path:
    """Six members that are right where they are certain; the last points confuse them."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    digits = load_digits()
    X, true = digits.data[:N_TEST].astype(np.uint8), digits.target[:N_TEST]
    noise = np.where(np.arange(N_TEST) > 100, 6.0, 1.0)[:, None]
    logits = 6 * np.eye(10)[true] + noise * rng.normal(size=(N_MEMBERS, N_TEST, 10))
    p = np.exp(logits)
    p /= p.sum(axis=2, keepdims=True)
    votes = np.eye(10)[p.argmax(axis=2)].sum(axis=0)
    mean = p.mean(axis=0)
    vote = (votes + mean / 2).argmax(axis=1)
    certainty = mean[np.arange(N_TEST), vote]
    disagreement = 1 - votes.max(axis=1) / N_MEMBERS
    deferred = (disagreement > 0.25) | (certainty < 0.5)
    pd.DataFrame(
        {
            "row": np.arange(N_TEST), "true": true, "predicted": vote, "certainty": certainty,
            "predicted_by_mean": mean.argmax(axis=1), "certainty_of_mean": mean.max(axis=1),
            "disagreement": disagreement,
        }
    ).to_parquet(folder / "test_predictions.parquet")  # fmt: skip
    wrong = np.flatnonzero(vote != true)
    np.savez(folder / "test_errors.npz", row=wrong, true=true[wrong], predicted=vote[wrong],
             X=X[wrong])  # fmt: skip
    hardest = np.lexsort((np.arange(N_TEST), certainty, -disagreement))[:6]
    shown = np.concatenate([hardest, [7, 18], [0]])
    np.savez(
        folder / "explained.npz",
        name=[*(f"test sample {row}" for row in shown[:8]), "photo.png"],
        group=["disagreement"] * 6 + ["chosen"] * 2 + ["own"],
        X=X[shown], true=[*true[shown[:8]], -1], probabilities=p[:, shown].astype(np.float32),
        vote=vote[shown], deferred=deferred[shown],
    )  # fmt: skip
    sizes = []
    for size in range(1, N_MEMBERS + 1):
        for _ in range(1 if size == N_MEMBERS else 8):
            some = rng.choice(N_MEMBERS, size, replace=False)
            counts = np.eye(10)[p[some].argmax(axis=2)].sum(axis=0) + p[some].mean(axis=0) / 2
            errors = [np.mean(votes.argmax(axis=1) != true) for votes in (counts, p[some].mean(0))]
            sizes.append({"size": size, "vote_error": errors[0], "mean_error": errors[1]})
    pd.DataFrame(sizes).to_parquet(folder / "ensemble_sizes.parquet")
    cells = cells_of(rng)
    cells.to_parquet(folder / "cv_results.parquet")
    candidates = candidates_from(cells)
    candidates.to_parquet(folder / "candidates.parquet")
    errors = (p.argmax(axis=2) != true).mean(axis=1)
    members = pd.DataFrame(
        {
            "member": range(N_MEMBERS), "n_conv_layer": 12, "kernel_size": 3,
            "n_hidden_layer": 64, "learning_rate": 0.0123, "momentum": 0.32,
            "cv_loss": candidates[candidates.is_best].loss_mean.to_numpy(),
            "training_error": 0.0, "test_error": errors,
        }
    )  # fmt: skip
    members.to_csv(folder / "members.csv", index=False)
    kept = ~deferred
    record = {
        "command": "nn_bagging", "status": "finished", "seed": 7,
        "argv": ["python", "-m", "pipelines.nn_bagging"],
        "started": "2025-11-20T10:13:20+00:00", "wall_seconds": 61.2,
        "options": {"n_bootstrap": N_MEMBERS, "n_tuning": N_CANDIDATES, "folds": N_FOLDS},
        "dataset": {
            "name": "digits", "n_train": 1437, "n_test": N_TEST, "n_features": 64,
            "n_classes": 10, "classes": list("0123456789"), "image_shape": [8, 8],
        },
        "cluster": {
            "kind": "local", "n_workers": 2,
            "workers": [{"address": w, "host": "laptop", "gpu": None} for w in WORKERS],
        },
        "busy_share": 0.97, "n_cells": len(cells),
        "vote_test_error": float(np.mean(vote != true)), "n_vote_errors": len(wrong),
        "mean_test_error": float(np.mean(mean.argmax(axis=1) != true)),
        "n_mean_errors": int(np.sum(mean.argmax(axis=1) != true)),
        "members_mean_test_error": float(errors.mean()),
        "members_best_test_error": float(errors.min()),
        "test_calibration_error": 0.0123,
        "selective_prediction": {"rule": RULE, "n_kept": int(kept.sum()),
                     "n_wrong_kept": int(np.sum(kept & (vote != true)))},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "journal.jsonl").write_text(
        "".join(map(journal_line, cells.groupby(["member", "candidate"])))
        + "".join(map(refit_line, range(N_MEMBERS)))
    )
    return folder


def cells_of(rng: np.random.Generator) -> pd.DataFrame:
    """Cells of every member, candidate and fold; one candidate did not fit its device."""
    cells = pd.DataFrame(
        [
            {"member": member, "candidate": candidate, "fold": fold, "n_train": 958,
             "n_validation": 479, "n_errors": 12, "error": 0.02 + 0.03 * rng.random(),
             "network": "conv", "n_conv_layer": 12, "kernel_size": 3, "n_hidden_layer": 64,
             "learning_rate": 0.0123, "momentum": 0.32,
             "loss": 0.1 + rng.random(), "status": "ok"}
            for member in range(N_MEMBERS)
            for candidate in range(N_CANDIDATES)
            for fold in range(N_FOLDS)
        ]
    )  # fmt: skip
    lost = (cells.member == 2) & (cells.candidate == 3)
    cells["n_errors"] = cells["n_errors"].astype("Int64")
    cells.loc[lost, ["error", "loss", "n_errors"]] = np.nan
    cells.loc[lost, "status"] = "failed: out of memory"
    return cells


def candidates_from(cells: pd.DataFrame) -> pd.DataFrame:
    means = cells.groupby(["member", "candidate"])[["loss", "error"]].mean().add_suffix("_mean")
    best = means.groupby("member")["loss_mean"].transform("min")
    table = means.assign(is_best=means["loss_mean"] == best).reset_index()
    return table.assign(learning_rate=0.01 + 0.01 * table["candidate"], momentum=0.32)


def journal_line(group: tuple[tuple[int, int], pd.DataFrame]) -> str:
    (member, candidate), rows = group
    place = member * N_CANDIDATES + candidate
    record = {
        "task": f"cv-member={member} candidate={candidate}", "worker": WORKERS[place % 2],
        "started": 1_763_633_600.0 + 2.5 * (place // 2), "seconds": 2.4,
        "rows": json.loads(rows.to_json(orient="records")),
    }  # fmt: skip
    return json.dumps(record) + "\n"


def refit_line(member: int) -> str:
    """The refit of a member, with its loss after each epoch."""
    row = {
        "member": member, "candidate": 0, "fold": -1, "network": "conv", "n_conv_layer": 4,
        "kernel_size": 3, "n_hidden_layer": 32, "learning_rate": 0.01, "momentum": 0.2,
        "n_train": 1437, "n_validation": 500, "n_errors": 9, "error": 0.018, "loss": 0.1,
        "n_epochs": 3, "status": "ok", "losses": json.dumps([2.0, 1.0 + member / 10, 0.5]),
    }  # fmt: skip
    record = {"task": f"nn-member={member} refit", "worker": WORKERS[0],
              "started": 1_763_633_700.0 + member, "seconds": 1.0, "rows": [row]}  # fmt: skip
    return json.dumps(record) + "\n"
