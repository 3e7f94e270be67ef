"""Search spaces that come with the program, one YAML file each."""
