"""SVMs with an approximate kernel for many rows: the kernel is made from some rows, landmarks."""
