"""joblib's Dask backend: GridSearchCV on a local cluster."""

import json
import sys

import joblib
import numpy as np
from dask.distributed import Client
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

if __name__ == "__main__":
    problem = np.load(sys.argv[1])
    grid = {"C": problem["Cs"], "gamma": problem["gammas"]}
    client = Client(processes=True, threads_per_worker=1, dashboard_address=None)
    search = GridSearchCV(SVC(), grid, cv=5)
    with joblib.parallel_backend("dask", scatter=[problem["X"], problem["y"]]):
        search.fit(problem["X"], problem["y"])
    error = 1 - search.score(problem["X_test"], problem["y_test"])
    print(json.dumps({"cv_error": 1 - search.best_score_, "test_error": error}))
    client.shutdown()
