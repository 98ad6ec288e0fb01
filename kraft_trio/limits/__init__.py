"""Limits that keep strangers and floods from a node's time and memory, and the counters of what they refused."""
