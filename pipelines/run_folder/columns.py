"""The columns of a run's tables of cells, with their dtypes."""

from __future__ import annotations

OF_SVM = {
    "C": "float64",
    "gamma": "float64",
    "fold": "int64",
    "n_train": "int64",
    "n_validation": "int64",
    "n_errors": "Int64",
    "error": "float64",
    "score": "float64",
    "n_support": "Int64",
    "n_iterations": "Int64",
    "fit_seconds": "float64",
    "score_seconds": "float64",
    "worker": "str",
    "status": "str",
}
SVM_CANDIDATE = ("C", "gamma")  # what tells one candidate from another
SVM_CELL = (*SVM_CANDIDATE, "fold")

OF_BAGGING = {
    "member": "int64",
    "candidate": "int64",
    "fold": "int64",
    "network": "str",
    "n_conv_layer": "int64",
    "kernel_size": "int64",
    "n_hidden_layer": "int64",
    "learning_rate": "float64",
    "momentum": "float64",
    "n_train": "int64",
    "n_validation": "int64",
    "n_errors": "Int64",
    "error": "float64",
    "score": "float64",
    "loss": "float64",
    "n_epochs": "Int64",
    "fit_seconds": "float64",
    "score_seconds": "float64",
    "worker": "str",
    "status": "str",
}
BAGGING_CANDIDATE = ("member", "candidate")
BAGGING_CELL = (*BAGGING_CANDIDATE, "fold")
