"""What ``python -m cluster_setup`` does beside: look at a site, write a job script."""
