"""A long run, watched from outside: what is measured, and whether it is flat."""
