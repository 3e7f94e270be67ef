"""How many units a scheduler serves: one case, in a process of its own."""
