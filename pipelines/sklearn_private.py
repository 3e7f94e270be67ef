"""Private names of scikit-learn that this program uses: no other file imports one.

scikit-learn may move or change them with any release. ``from pipelines.sklearn_private import
StrOptions`` imports only the module that has the name. This file by itself imports nothing of
scikit-learn, whose import takes longer than a short search.

Private attributes of its objects are used where they are needed: of scorers ``_kwargs``,
``_response_method``, ``_score_func`` and ``_scorers``; of fitted estimators ``_fit_method``,
``_label_binarizer``, ``_validate_X_predict`` and ``_y``; of searches ``_format_results``; of all
estimators ``_get_param_names``, ``_parameter_constraints`` and ``_validate_params``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The lowest version that pyproject.toml allows, which make test-versions installs, and the version
# of constraints.txt.
TRIED = ("1.7.0", "1.9.1")

LOCATIONS = {
    "BaseScorer": ("sklearn.metrics._scorer", "_BaseScorer"),
    "HalfBinomialLoss": ("sklearn._loss.loss", "HalfBinomialLoss"),
    "HalfMultinomialLoss": ("sklearn._loss.loss", "HalfMultinomialLoss"),
    "Interval": ("sklearn.utils._param_validation", "Interval"),
    "MultimetricScorer": ("sklearn.metrics._scorer", "_MultimetricScorer"),
    "Options": ("sklearn.utils._param_validation", "Options"),
    "PassthroughScorer": ("sklearn.metrics._scorer", "_PassthroughScorer"),
    "SigmoidCalibration": ("sklearn.calibration", "_SigmoidCalibration"),
    "StrOptions": ("sklearn.utils._param_validation", "StrOptions"),
    "check_method_params": ("sklearn.utils.validation", "_check_method_params"),
    "check_optimize_result": ("sklearn.utils.optimize", "_check_optimize_result"),
    "check_sample_weight": ("sklearn.utils.validation", "_check_sample_weight"),
    "check_y": ("sklearn.utils.validation", "_check_y"),
    "fit_and_score": ("sklearn.model_selection._validation", "_fit_and_score"),
    "fit_context": ("sklearn.base", "_fit_context"),
    "safe_split": ("sklearn.utils.metaestimators", "_safe_split"),
    "score": ("sklearn.model_selection._validation", "_score"),
}


def __getattr__(name: str) -> Any:
    if name not in LOCATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, private = LOCATIONS[name]
    try:
        return getattr(import_module(module), private)
    except (AttributeError, ModuleNotFoundError) as error:
        from sklearn import __version__

        # Not an AttributeError: "from ... import" would drop its message.
        raise ImportError(
            f"scikit-learn {__version__} has no {module}.{private}; install a version that this "
            f"program was tried with: {' or '.join(TRIED)}"
        ) from error
