"""Optuna: 40 trials that learn from those before, anywhere in the grid's bounds."""

import json
import sys
from os import cpu_count

import numpy as np
import optuna
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

problem = np.load(sys.argv[1])
X, y = problem["X"], problem["y"]


def objective(trial):
    C = trial.suggest_float("C", min(problem["Cs"]), max(problem["Cs"]), log=True)
    gamma = trial.suggest_float("gamma", min(problem["gammas"]), max(problem["gammas"]), log=True)
    return cross_val_score(SVC(C=C, gamma=gamma), X, y, cv=5).mean()


study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(objective, n_trials=40, n_jobs=cpu_count())
model = SVC(**study.best_params).fit(X, y)
error = 1 - model.score(problem["X_test"], problem["y_test"])
print(json.dumps({"cv_error": 1 - study.best_value, "test_error": error}))
