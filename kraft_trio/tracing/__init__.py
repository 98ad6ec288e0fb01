"""Events of a run, in memory and in files."""
