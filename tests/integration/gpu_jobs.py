"""Jobs of ``dask cuda worker``, one of them cancelled.

``python -m tests.integration.gpu_jobs PROFILE``: a program of its own, since the Python that
has dask-cuda need not be that of the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from cluster_setup import open_cluster
from tests.integration.naps import begun


def main(profile):
    """Print what the workers saw and what became of the tasks, as JSON."""

    def which(dask_worker):
        node = os.environ["SLURMD_NODENAME"]
        return node, os.environ["CUDA_VISIBLE_DEVICES"], dask_worker.state.nthreads

    with open_cluster("slurm", 4, profile=profile) as client:
        outcomes, rest = begun(client, 20, 0.2)
        workers = list(client.run(which).values())
        queue = ["squeue", "--noheader", "--format=%i"]
        jobs = subprocess.run(queue, check=True, capture_output=True, text=True).stdout.split()
        subprocess.run(["scancel", jobs[0]], check=True)
        outcomes += rest
    print(
        json.dumps(
            {
                "workers": workers,
                "errors": [outcome.error for outcome in outcomes if outcome.error],
                "results": [outcome.result for outcome in outcomes],
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
