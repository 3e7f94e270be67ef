"""The pages of runs, one file a command: which facts and figures each shows."""
