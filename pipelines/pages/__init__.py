"""Pages of runs: for each command, the cards, sections and figures of its page."""
