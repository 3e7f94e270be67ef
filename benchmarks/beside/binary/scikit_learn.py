"""scikit-learn: GridSearchCV along C on all cores."""

import json
import sys

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

problem = np.load(sys.argv[1])
grid = {"C": problem["Cs"], "gamma": problem["gammas"][:1]}
search = GridSearchCV(SVC(), grid, cv=5, n_jobs=-1)
search.fit(problem["X"], problem["y"])
error = 1 - search.score(problem["X_test"], problem["y_test"])
print(json.dumps({"cv_error": 1 - search.best_score_, "test_error": error}))
