"""TabM with the defaults of pytabkit, which were tuned on other tables."""

import json
import sys

import numpy as np
from pytabkit import TabM_D_Classifier

problem = np.load(sys.argv[1])
model = TabM_D_Classifier(device="cpu", random_state=0)
model.fit(problem["X"], problem["y"])
error = 1 - model.score(problem["X_test"], problem["y_test"])
print(json.dumps({"test_error": error}))
