"""Process groups: one torch rank on each worker, all or none."""
