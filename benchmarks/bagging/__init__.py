"""Cross-validation of networks as a workload: our way, and the plain loop of a PyTorch user."""
