"""Train one network on many ranks: strategies, pipeline stages, and lost ranks."""
