"""Clients and administrators that use the simulated quorum and keep a history of the answers."""
