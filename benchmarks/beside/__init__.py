"""Programs as their users write them, one for each way to do a job, measured."""
