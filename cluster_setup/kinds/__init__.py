"""The kinds of cluster, a file each with ``open_client``; their table is in ``options``.

A kind whose workers are jobs has ``job_script`` too, one that MPI starts ``take_part``, and one
that can say at once what it cannot do, ``refuse``.
"""
