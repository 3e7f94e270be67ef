"""Pleasingly: BaggedNets with its defaults."""

import json
import sys

import numpy as np

from pipelines import BaggedNets

problem = np.load(sys.argv[1])
model = BaggedNets(random_state=0)
model.fit(problem["X"], problem["y"])
error = 1 - model.score(problem["X_test"], problem["y_test"])
print(json.dumps({"test_error": error}))
