"""Constants that both path solvers use, on the CPU and on the GPU.

Both follow the same rules, so that a search and its refit on another device agree within the
tolerance.
"""

# At the next C, multipliers are scaled with C while more than this fraction of the support vectors
# is at its bound, and start from their last values otherwise (measured).
SCALE_FRACTION = 0.6
# A hard problem always scales: multipliers at their bound follow it, and one Newton step corrects
# those between bounds. Bringing many to their new bound would take as many steps as there are of
# them.
HARD_SCALE_FRACTION = 0.0

# An inner solve closes nine tenths of the optimality gap before all rows are tested again:
# converging on a working set that is not yet the right one would waste iterations.
INNER_GAP = 0.1

# On a hard problem, SMO first runs this many iterations per row of the working set: it finds out
# cheaply which multipliers are free, and Newton's method continues from there.
SMO_FRACTION = 0.3

# Rounds in a row without progress after which a solve is given up as stalled.
MOST_IDLE_ROUNDS = 20

# The ridge that Newton's method adds to the kernel changes residuals by at most this fraction of
# the tolerance when a multiplier moves over its whole range,
RIDGE_FRACTION = 0.05
# ... and is at least the rounding of the kernel in its precision, relative to its largest value.
RESOLVED64, RESOLVED32 = 1e-14, 3e-7

# Rows set free at once, as a fraction of those that are free; and by which fraction of the
# tolerance a row must violate optimality to be set free.
ADDED_FRACTION, VIOLATION_FRACTION = 0.05, 0.25

# Where a step would carry fewer rows than this beyond their bounds, they are pinned one by one.
LEAST_BATCH = 2
# Pinning rows moves the others, which may then also exceed their bounds: it is repeated so often.
MOST_TRIES = 6

# A step that moves no multiplier by more than this fraction of its range counts as idle; after so
# many idle steps in a row, Newton's method has stalled.
LEAST_MOVE, MOST_IDLE_STEPS = 1e-13, 200
