"""The exception for a cluster that cannot be opened."""


class ClusterError(ValueError):
    """A cluster cannot be opened with these options.

    The message is one line that names the option, the rule, the value and the
    way out; commands print it on stderr and end with exit status 2.
    """
