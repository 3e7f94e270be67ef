"""They time ``pipelines`` against its peers and keep dated results; commands, not tests."""
