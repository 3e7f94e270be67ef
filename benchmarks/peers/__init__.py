"""scikit-learn's own tests with our estimators in the place of its own."""
