"""A fitted ``PathSVC`` as a file: safetensors, beside its ``KernelMachine``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pipelines.data.model_file import Arrays, load_model
from pipelines.svm.kernel import KERNELS
from pipelines.svm.kernel_machine import KernelMachine

if TYPE_CHECKING:
    from pipelines.svm.path_svc import PathSVC

    SVC = TypeVar("SVC", bound=PathSVC)


def save_svc(svc: PathSVC, path: Path) -> None:
    """See ``PathSVC.save``."""
    check_is_fitted(svc)
    if svc.solver_kernel.is_given:
        raise ValueError(
            f"kernel must be one of {', '.join(KERNELS)} to be saved, got {svc.kernel!r}"
        )
    parameters = svc.get_params()
    if isinstance(svc.class_weight, dict):  # the keys of JSON are text, labels need not be
        parameters["class_weight"] = [list(pair) for pair in svc.class_weight.items()]
    names = getattr(svc, "feature_names_in_", None)
    estimator = {
        "parameters": parameters,
        "n_iter": svc.n_iter_.tolist(),
        "fit_status": svc.fit_status_,
        "feature_names": None if names is None else list(names),
    }
    arrays = {"support": svc.support_, "n_support": svc.n_support_}
    svc.machine_.save(path, arrays, path_svc=estimator)


def load_svc(kind: type[SVC], path: Path) -> SVC:
    """See ``PathSVC.load``."""

    def restored(arrays: Arrays, about: dict[str, Any]) -> SVC:
        if "path_svc" not in about:
            raise ValueError("it holds none")
        machine = KernelMachine.from_stored(arrays, about)
        return _restored(kind, machine, arrays, about["path_svc"])

    return load_model(
        path, restored, "a file that PathSVC.save wrote",
        "a run's model.safetensors is read by KernelMachine.load",
    )  # fmt: skip


def _restored(
    kind: type[SVC], machine: KernelMachine, arrays: Arrays, about: dict[str, Any]
) -> SVC:
    parameters = dict(about["parameters"])
    if isinstance(parameters["class_weight"], list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    restored = kind(**parameters)
    restored._validate_params()
    support, n_support = arrays["support"], arrays["n_support"]
    if support.shape != (len(machine.support_vectors),):
        raise ValueError(f"its support has the shape {support.shape}")
    if n_support.shape != machine.classes_.shape or n_support.sum() != len(support):
        raise ValueError(f"its support is {len(support)}, by class {n_support.tolist()}")
    restored.machine_, restored.support_, restored.n_support_ = machine, support, n_support
    restored.classes_ = machine.classes_
    restored.n_iter_ = np.atleast_1d(np.array(about["n_iter"], np.int32))
    restored.fit_status_ = int(about["fit_status"])
    restored.n_features_in_ = machine.support_vectors.shape[1]
    if about["feature_names"] is not None:
        restored.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    return restored
