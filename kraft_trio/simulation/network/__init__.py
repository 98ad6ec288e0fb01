"""TCP between named hosts in one process, under virtual time, with faults."""
