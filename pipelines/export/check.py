"""The predictions of a model, and how far an exported model's predictions are from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipelines.data.dataset import take_rows
from pipelines.errors import error_line
from pipelines.export.onnx_graph import feed, labels_of
from pipelines.run.errors import RunStopped

TOLERANCE = 1e-5  # absolute for probabilities; for other numbers relative to the largest
BLOCK = 4096  # rows predicted at once


@dataclass(frozen=True, eq=False)
class Answers:
    """The predictions of a model for some rows.

    Attributes
    ----------
    labels : array of shape (n_rows,) or None
        None for a regression.
    values : mapping of arrays by str
        By the name of the output: "probabilities", "decision" or "votes" of shape
        (n_rows, n_classes), or "prediction" of shape (n_rows,).
    """

    labels: np.ndarray | None
    values: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of_codes(cls, classes: np.ndarray, codes: np.ndarray, **values: np.ndarray) -> Answers:
        """Predictions whose labels are given by class codes, in the types that ONNX has."""
        return cls(labels_of(np.asarray(classes))[codes], values)


def compare_answers(reference: Answers, exported: Answers) -> str:
    """How the predictions of an exported model agree with those of the run's own, in words.

    Outputs that the exported model lacks are not compared.

    Parameters
    ----------
    reference : Answers
        The predictions of the run's own model.
    exported : Answers
        The exported model's predictions for the same rows.

    Raises
    ------
    RunStopped
        A label differs, or a value by more than ``TOLERANCE``.
    """
    words, agree = [], True
    if reference.labels is not None:
        assert exported.labels is not None
        n_rows, n_equal = len(reference.labels), int(np.sum(reference.labels == exported.labels))
        agree = n_equal == n_rows
        words.append(f"{n_equal:,} of {n_rows:,} labels equal")
    for name, values in reference.values.items():
        if name not in exported.values:
            continue
        exported_values = exported.values[name]
        unit = 1.0 if name == "probabilities" else float(np.abs(values).max(initial=1.0))
        # NaN on both sides counts as equal.
        difference = np.abs(np.nan_to_num(exported_values) - np.nan_to_num(values)).max(initial=0.0)
        deviation = (
            float(difference) / unit
            if np.array_equal(np.isnan(exported_values), np.isnan(values))
            else np.inf
        )
        agree = agree and deviation <= TOLERANCE
        phrase = f"{name} at most {difference:.2g} apart"
        if reference.labels is None:
            phrase = f"{len(values):,} predictions at most {difference:.2g} apart"
        words.append(
            phrase if unit == 1 or not difference else f"{phrase}, {deviation:.2g} of the largest"
        )
    agreement = ", ".join(words)
    if not agree:
        raise RunStopped(
            f"the exported model does not answer as the run's own: {agreement} (all labels must be "
            f"equal, and probabilities to {TOLERANCE:g}); nothing was written"
        )
    return agreement


def answers_of_onnx(content: bytes, X: Any, images: bool) -> Answers:
    """The predictions of an ONNX model, by ONNX Runtime on a CPU.

    Parameters
    ----------
    content : bytes
        The content of the file.
    X : array or frame
        Rows as the run read them.
    images : bool
        Whether rows are pixels.

    Raises
    ------
    RunStopped
        ONNX Runtime cannot load or run the model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone: warnings concern its own optimisations
    on_cpu = ["CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(content, options, providers=on_cpu)
        names = [info.name for info in session.get_inputs()]
        outputs: Sequence[str] = [info.name for info in session.get_outputs()]
        blocks = [
            session.run(outputs, feed(take_rows(X, slice(start, start + BLOCK)), names, images))
            for start in range(0, len(X), BLOCK)
        ]
    except Exception as error:  # ONNX Runtime's errors have no other class in common
        raise RunStopped(
            f"ONNX Runtime cannot run the exported model ({error_line(error)}); nothing was written"
        ) from None
    values = {
        name: np.concatenate(parts)
        for name, parts in zip(outputs, zip(*blocks, strict=True), strict=True)
    }
    labels = values.pop("label", None)
    if labels is not None and labels.dtype == object:
        labels = labels.astype(str)
    return Answers(labels, values)
