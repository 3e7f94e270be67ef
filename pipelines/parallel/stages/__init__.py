"""Pipeline parallelism: a network cut into stages, each on a rank, fed by micro-batches."""
