"""Numbers by which both path solvers go, the CPU's and the GPU's."""

# Multipliers are scaled with C while more than this share of the support vectors
# is at its bound, and kept otherwise (measured).
SCALE_FRACTION = 0.6
# Where it is hard, multipliers at their bound go on with it: one Newton step then
# mends those between bounds, while to bring many to their bound takes as many steps.
HARD_SCALE_FRACTION = 0.0

# An inner solve closes nine tenths of the gap before the other rows are looked
# at: to finish on a set that is not yet the right one wastes iterations.
INNER_GAP = 0.1

# Where a problem is hard SMO has this share of the working set in iterations to find who is
# free, before Newton's method.
SMO_FRACTION = 0.3

# Rounds in a row without progress after which it has stalled.
MOST_IDLE_ROUNDS = 20

# Newton's method: the ridge lets residuals differ by this share of the tolerance when a
# multiplier moves over its whole range,
RIDGE_FRACTION = 0.05
# ... and is no less than what its own kernel resolves, of its largest value.
RESOLVED64, RESOLVED32 = 1e-14, 3e-7

# Rows set free at once: this share of those that are free; each violates by more than this
# share of the tolerance.
ADDED_FRACTION, VIOLATION_FRACTION = 0.05, 0.25

# Fewer rows than this that a step would carry beyond their bounds are pinned one by one.
LEAST_BATCH = 2
# Times that rows are pinned because those pinned before moved them beyond their bounds.
MOST_TRIES = 6

# A step that moves no multiplier by more than this share of its range moves nothing; so many
# in a row, and the method has no more to give.
LEAST_MOVE, MOST_IDLE_STEPS = 1e-13, 200
