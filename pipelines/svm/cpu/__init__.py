"""The path solver on a CPU: all C and all folds of a gamma solved together, exactly."""
