"""The one exception for input a user can put right."""


class InputError(ValueError):
    """An option or an input file breaks a rule.

    The message is one line that names the option, the rule, the value and the
    way out; commands print it on stderr and end with exit status 2.
    """
