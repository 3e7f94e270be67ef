"""TorchKM on the CPU: its C are those of SVC, and its kernel is exp(-2 sigma d²)."""

import json
import sys

import numpy as np
from torchkm.estimators import TorchKMSVC

problem = np.load(sys.argv[1])
y, y_test = (np.where(problem[name] == problem["y"][0], 1, -1) for name in ("y", "y_test"))
model = TorchKMSVC(
    kernel="rbf",
    rbf_sigma=problem["gammas"][0] / 2,
    Cs=problem["Cs"],
    nC=len(problem["Cs"]),
    cv=5,
    device="cpu",
)
model.fit(problem["X"], y)
error = float(np.mean(model.predict(problem["X_test"]) != y_test))
print(json.dumps({"cv_error": float(model.cv_mis_.min()), "test_error": error}))
