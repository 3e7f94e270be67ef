"""Public scripts, unchanged, plain and accelerated: ``python -m benchmarks.scripts --from DIR``.

The scripts stay where they are published, in checkouts of their repositories below DIR; ``--list``
says which, and how they are brought there. Each runs as ``python SCRIPT`` and as
``python -m pipelines.accelerate SCRIPT`` in turns, on one thread, in processes of its own, and
what its searches found is compared.
"""
