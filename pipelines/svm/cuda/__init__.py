"""The path solver on a GPU: a thread block for each binary problem walks its path of C."""
