"""Cross-validation of any estimator: candidates, the work they share, how they are compared."""
