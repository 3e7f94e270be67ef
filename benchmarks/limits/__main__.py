"""One case in this process: ``python -m benchmarks.limits ours 1000 2 tls``; a line of JSON."""

import json
import sys

from benchmarks.limits.case import measure

if __name__ == "__main__":
    way, n_units, n_workers, tls = sys.argv[1:]
    print(json.dumps(measure(way, int(n_units), int(n_workers), tls == "tls")))
