from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipelines import PathSVC, PathSVR
from pipelines.data.scaling import Scaling
from pipelines.errors import InputError
from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor

RAW, TARGETS = load_diabetes(return_X_y=True)
X, Y = StandardScaler().fit_transform(RAW), (TARGETS - TARGETS.mean()) / TARGETS.std()
RNG = np.random.default_rng(0)

# As of PathSVC: two solutions within the tolerance are not equal to seven digits.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "within the tolerance only, as SVR",
    "check_sample_weight_equivalence_on_sparse_data": "within the tolerance only, as SVR",
}


@parametrize_with_checks(
    [PathSVR(), PathSVR(kernel="linear")], expected_failed_checks=lambda estimator: EXPECTED
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)
