"""Tests of scikit-learn's that our estimators do not pass, each with why."""

from __future__ import annotations

REASONS = {
    "within the tolerance": "solutions within tol of the optimum are not equal digit for digit",
    "inner parts": "reads or changes private attributes of SVC, which are not ours",
    "other words": "the same case is refused, in our words",
    "taken": "SVC refuses what we take",
    "refused": "SVC takes what we refuse with the reason: an infinite C",
    "no deprecation": "SVC's probability is on its way out; ours is calibration, and stays",
    "other iterations": "SVC's iterations are not ours, nor its words on their limit",
}

# The name of a test without its parameters, and why.
LEFT = {
    "test_libsvm_parameters": "within the tolerance",
    "test_precomputed": "within the tolerance",
    "test_svc_clone_with_callable_kernel": "within the tolerance",
    "test_tweak_params": "inner parts",
    "test_gamma_scale": "inner parts",
    "test_svc_raises_error_internal_representation": "inner parts",
    "test_negative_sample_weights_mask_all_samples": "other words",
    "test_negative_weights_svc_leave_just_one_label": "other words",
    "test_svc_nonfinite_params": "other words",
    "test_unfitted": "other words",
    "test_bad_input": "taken",
    "test_grid_search_precomputed_kernel": "taken",
    "test_svm_with_infinite_C": "refused",
    "test_probability_raises_futurewarning": "no deprecation",
    "test_svc_nusvc_probA_probB_deprecated": "no deprecation",
    "test_libsvm_convergence_warnings": "other iterations",
}


def reason_of(test: str) -> str | None:
    """Why a test is left; None for one that should pass."""
    return LEFT.get(test.split("[")[0])
