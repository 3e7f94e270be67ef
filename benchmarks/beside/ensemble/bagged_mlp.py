"""scikit-learn: ten MLPClassifiers on bootstrap samples, on all cores."""

import json
import sys

import numpy as np
from sklearn.ensemble import BaggingClassifier
from sklearn.neural_network import MLPClassifier

problem = np.load(sys.argv[1])
model = BaggingClassifier(MLPClassifier(max_iter=500), n_jobs=-1, random_state=0)
model.fit(problem["X"], problem["y"])
error = 1 - model.score(problem["X_test"], problem["y_test"])
print(json.dumps({"test_error": error}))
