"""One network cut into stages, each on a rank; micro-batches pass through them in a schedule."""
