"""Gives changed inputs to every decoder of foreign bytes; `scripts/fuzz` does it for a chosen time."""
