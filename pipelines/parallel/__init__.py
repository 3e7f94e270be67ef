"""One network trained by many ranks: how they keep in step, and what they can lose."""
