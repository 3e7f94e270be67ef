"""Model selection of support vector machines: the grid of C and gamma, and the best machine."""
