"""Model selection of support vector machines: the search over C and gamma, and the best machine."""
