"""Model selection: units of a solver, spread over workers, reduced to an answer."""
