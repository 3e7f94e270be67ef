"""Ray Tune: a trial for each candidate, which cross-validates it."""

import json
import sys

import numpy as np
import ray
from ray import tune
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC


def trial(config, X, y):
    score = cross_val_score(SVC(C=config["C"], gamma=config["gamma"]), X, y, cv=5).mean()
    return {"score": score}


problem = np.load(sys.argv[1])
X, y = problem["X"], problem["y"]
ray.init(include_dashboard=False)
space = {
    "C": tune.grid_search(problem["Cs"].tolist()),
    "gamma": tune.grid_search(problem["gammas"].tolist()),
}
tuner = tune.Tuner(
    tune.with_parameters(trial, X=X, y=y),
    param_space=space,
    tune_config=tune.TuneConfig(metric="score", mode="max"),
    run_config=tune.RunConfig(verbose=0),
)
best = tuner.fit().get_best_result()
model = SVC(C=best.config["C"], gamma=best.config["gamma"]).fit(X, y)
error = 1 - model.score(problem["X_test"], problem["y_test"])
print(json.dumps({"cv_error": 1 - best.metrics["score"], "test_error": error}))
