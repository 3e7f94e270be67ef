"""The rows on which an exported model is compared with the run's own."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pipelines.errors import InputError, opt
from pipelines.run.job import Job
from pipelines.run_folder.record import Record


def rows_of_test(
    job: type[Job[Any]], metadata: dict[str, Any], record: Record, dataset: str | None
) -> tuple[Any, str]:
    """Read the test rows of a run again, with the run's own options.

    Parameters
    ----------
    job : type of Job
        The job of the run's command.
    metadata, record : dict, Record
        ``run.json`` as it is stored, and parsed by its schema.
    dataset : str or None
        The path of the data if they have moved; by default the run's data path.

    Returns
    -------
    X : array or frame
        The test rows.
    words : str
        The number of rows, and whether the data have changed since the run.

    Raises
    ------
    InputError
        The data cannot be read, have no test rows, or do not have the run's form.
    """
    options_type = job.options_class
    names = {field.name for field in fields(options_type)}
    recorded = metadata.get("options", {})
    option_values = {name: value for name, value in recorded.items() if name in names}
    try:
        options = TypeAdapter(options_type).validate_json(json.dumps(option_values))
    except ValidationError as error:
        raise InputError(
            f"RUN must have options that are whole, got {error.errors()[0]['msg']}; run it anew"
        ) from None
    options = replace(options, quiet=True, **({} if dataset is None else {"dataset": dataset}))
    data: Any = job().load(options, "threads")
    changed = record.dataset.fingerprint not in (None, data.fingerprint)
    words = "test row" if len(data.X_test) == 1 else "test rows"
    words = f"{len(data.X_test):,} {words}"
    if changed:
        words += ", of data that have changed since the run"
    X = data.X_test
    if not len(X):
        raise InputError("the data have no test rows")
    if getattr(options, "features", None) is not None and options.feature_file is None:
        from pipelines.search.image_features import Features

        features = Features.of(options, data, metadata)
        assert features is not None
        X = features.extractor.features(X, data.image_shape)
    elif hasattr(X, "shape") and not hasattr(X, "iloc"):
        X = X[:]  # reads streamed rows into memory
    if hasattr(X, "columns"):
        fits = bool(record.dataset.columns) and {*record.dataset.columns} <= {*X.columns}
    else:  # the extractor decides how many features images have
        fits = getattr(options, "features", None) is not None or math.prod(X.shape[1:]) == (
            record.dataset.n_features or X.shape[1]
        )
    if not fits or data.task != (record.dataset.task or data.task):
        raise InputError(f"{data.name} has other columns than the run's data, or another target")
    return X, words


def unreadable_data_error(error: Exception) -> InputError:
    """The error for a model that cannot be checked, as its test rows cannot be read."""
    text = error.flagged() if isinstance(error, InputError) else str(error)
    return InputError(
        f"{opt('dataset')} must name the data of the run, on whose test rows the exported model is "
        f"checked, and they cannot be read ({text}); give {opt('dataset', 'PATH')} where they are"
    )
