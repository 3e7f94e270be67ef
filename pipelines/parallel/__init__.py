"""Train one network on many ranks: strategies, and lost ranks."""
