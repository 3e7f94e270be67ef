"""The network, training of stacked folds, random search, members."""
