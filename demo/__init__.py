"""A real Slurm on one machine, and the whole story played on it."""
