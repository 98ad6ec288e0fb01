"""Checks the specification in spec/ with TLC, and tells of the results."""
