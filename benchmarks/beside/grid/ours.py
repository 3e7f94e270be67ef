"""Pleasingly: SVMGridSearch."""

import json
import sys

import numpy as np

from pipelines import SVMGridSearch

problem = np.load(sys.argv[1])
search = SVMGridSearch(C=problem["Cs"], gamma=problem["gammas"], cv=5, n_jobs=-1)
search.fit(problem["X"], problem["y"])
error = 1 - search.score(problem["X_test"], problem["y_test"])
print(json.dumps({"cv_error": 1 - search.best_score_, "test_error": error}))
