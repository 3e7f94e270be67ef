"""The path solver: all C and all folds of one gamma solved together, exactly."""
