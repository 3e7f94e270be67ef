"""What ``run.json`` says of a run: of any, and a file for each command."""
