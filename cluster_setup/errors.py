"""The one exception for a cluster that cannot be had."""


class ClusterError(ValueError):
    """A cluster cannot be opened as asked.

    The message is one line that names the option, the rule, the value and the
    way out; commands print it on stderr and end with exit status 2.
    """
