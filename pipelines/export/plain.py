"""Files that need only scikit-learn to be read: a pickle or a skops file."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.model_file import DAMAGE_OF_SKOPS, skops_io
from pipelines.errors import InputError, error_line, opt
from pipelines.export.check import Answers
from pipelines.export.exported_model import Exported

OURS = ("pipelines", "cluster_setup")


class _Unpickler(pickle.Unpickler):
    """Loads a pickle, and raises InputError if it refers to this package."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] in OURS:
            raise _needs_package_error(f"{module}.{name}", "sklearn")
        return super().find_class(module, name)


def _needs_package_error(name: str, format: str) -> InputError:
    return InputError(
        f"{opt('to', format)} must be a model of scikit-learn's own classes, got one with {name}; "
        f"use {opt('to', 'onnx')}, or the model of RUN with this package"
    )


def write_plain(path: Path, model: Any, format: str) -> None:
    """Write a fitted estimator, as a pickle ("sklearn") or with skops."""
    if format == "skops":
        content = skops_io().dumps(model, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
        path.write_bytes(content)
        return
    with path.open("wb") as file:
        pickle.dump(model, file, protocol=5)


def load_plain(path: Path, format: str) -> Any:
    """Read what ``write_plain`` wrote, as a program without this package would.

    Raises
    ------
    InputError
        The estimator needs this package, or skops cannot store it.
    """
    if format == "sklearn":
        with path.open("rb") as file:
            return _Unpickler(file).load()
    io, content = skops_io(), path.read_bytes()
    untrusted = io.get_untrusted_types(data=content)
    for name in untrusted:
        if name.partition(".")[0] in OURS:
            raise _needs_package_error(name, format)
    try:
        return io.loads(content, trusted=untrusted)
    except DAMAGE_OF_SKOPS as error:
        raise InputError(
            f"{opt('to', 'skops')} must be a model that skops stores ({error_line(error)}); use "
            f"{opt('to', 'sklearn')}"
        ) from None


def answers_of_plain(model: Any, exported: Exported, X: Any) -> Answers:
    """The predictions of an exported estimator, for rows as the run read them.

    Parameters
    ----------
    model : estimator
        Fitted, as ``load_plain`` gives it.
    exported : Exported
        The export of the run's own model.
    X : array or frame
    """
    predicted = np.asarray(model.predict(X))
    classes = exported.model.classes_ if hasattr(exported.model, "classes_") else None
    if classes is None:
        return Answers(None, {"prediction": predicted.astype(np.float64)})
    known_classes = np.asarray(getattr(model, "classes_", np.arange(len(classes))))
    codes = known_classes
    if not predicts_codes(model, classes):
        codes = np.searchsorted(classes, known_classes)
        predicted = np.searchsorted(classes, predicted)
    values = {}
    if hasattr(model, "predict_proba"):
        values["probabilities"] = np.zeros((len(predicted), len(classes)))
        values["probabilities"][:, codes] = model.predict_proba(X)
    return Answers.of_codes(classes, predicted.astype(int), **values)


def predicts_codes(model: Any, classes: np.ndarray) -> bool:
    """Whether a fitted classifier predicts class codes, from 0, in place of the labels."""
    known_classes = np.asarray(getattr(model, "classes_", np.arange(len(classes))))
    return (
        not np.isin(known_classes, classes).all()
        or known_classes.dtype.kind != np.asarray(classes).dtype.kind
    )
