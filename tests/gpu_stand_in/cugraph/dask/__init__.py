from cugraph import pagerank as pagerank
