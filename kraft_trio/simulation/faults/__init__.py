"""Random plans of faults, made from a seed."""
