"""PageRank beside its peers: the lines, the memory's bandwidth, the page."""
