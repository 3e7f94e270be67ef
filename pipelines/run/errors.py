"""The one exception for a run that cannot go on."""


class RunStopped(RuntimeError):
    """A run ends before its last task; what was computed is on disk.

    Commands print the one-line message on stderr and end with exit status 1.
    """
