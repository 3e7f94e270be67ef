"""The network, training of stacked folds, random search, the ensemble."""
