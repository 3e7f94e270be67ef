"""Optuna: the whole grid, trials on all cores."""

import json
import sys
from os import cpu_count

import numpy as np
import optuna
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

problem = np.load(sys.argv[1])
X, y = problem["X"], problem["y"]
space = {"C": problem["Cs"].tolist(), "gamma": problem["gammas"].tolist()}


def objective(trial):
    C = trial.suggest_float("C", min(space["C"]), max(space["C"]))
    gamma = trial.suggest_float("gamma", min(space["gamma"]), max(space["gamma"]))
    return cross_val_score(SVC(C=C, gamma=gamma), X, y, cv=5).mean()


study = optuna.create_study(direction="maximize", sampler=optuna.samplers.GridSampler(space))
study.optimize(objective, n_jobs=cpu_count())
model = SVC(**study.best_params).fit(X, y)
error = 1 - model.score(problem["X_test"], problem["y_test"])
print(json.dumps({"cv_error": 1 - study.best_value, "test_error": error}))
