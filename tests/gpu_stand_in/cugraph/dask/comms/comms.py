"""What cuGraph knows of its workers, in the process that calls it."""

_ours = None


def initialize(comms):
    global _ours
    assert _ours is None, "Communicator is already initialized"
    _ours = comms


def subcomm_init(prows, pcols, partition_type):
    assert (prows, pcols, partition_type) == (None, None, 1)
    assert _ours.ready


def destroy():
    global _ours
    _ours.destroy()
    _ours = None
