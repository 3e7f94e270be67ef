"""RMM in name: resources that count, none of which holds anything."""
