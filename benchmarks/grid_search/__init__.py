"""The SVM grid search as a workload: our way, the peers' ways, and how they compare."""
