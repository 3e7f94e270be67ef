"""What a model says of rows, and how far an exported one is from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipelines.data.dataset import take_rows
from pipelines.errors import error_line
from pipelines.export.graph import feed, labels_of
from pipelines.run.errors import RunStopped

TOLERANCE = 1e-5  # of probabilities; of other numbers, of the largest of them
BLOCK = 4096  # rows


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of rows.

    Attributes
    ----------
    labels : of shape (n_rows,); None where the target is numbers
    values : by the name of the output: probabilities or decision of shape (n_rows, n_classes), or
        prediction of shape (n_rows,)
    """

    labels: np.ndarray | None
    values: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of_codes(cls, classes: np.ndarray, codes: np.ndarray, **values: np.ndarray) -> Answers:
        return cls(labels_of(np.asarray(classes))[codes], values)


def compare_answers(reference: Answers, exported: Answers) -> str:
    """How an exported model's answers agree with the model's own, in words.

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
        # A number that is none on both sides is equal.
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
    """Ask ONNX Runtime, on a CPU, about rows."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # warnings are of its own optimisations
    on_cpu = ["CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(content, options, providers=on_cpu)
        names = [info.name for info in session.get_inputs()]
        outputs: Sequence[str] = [info.name for info in session.get_outputs()]
        blocks = [
            session.run(outputs, feed(take_rows(X, slice(start, start + BLOCK)), names, images))
            for start in range(0, len(X), BLOCK)
        ]
    except Exception as error:  # ONNX Runtime's have no class in common
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
