"""A stranger's tries to make the program err: malformed inputs and faults, each checked by figures.

``python -m benchmarks.adversary --seed 1 [--only KIND] [--number N] [--tree FOLDER]`` runs the
program of FOLDER, each case in a process of its own with a time limit, and writes a table by kind.
A kind is a list of cases; a case draws its data, places and times from the seed, the kind and its
number.  What an answer is held to:

- inputs that mean what a clean file means: the figures of the clean file
- classifiers and ranks: scikit-learn's and networkx's, of the same arrays
- every run folder: its own tables (means of cells, errors of predictions)
- faults: after ``--resume`` the figures of an undisturbed run, and no record of the journal lost

A refusal in a line with exit status 2 (1 where work failed) holds, unless the case forbids it.
Faults mount file systems and need root.
"""
