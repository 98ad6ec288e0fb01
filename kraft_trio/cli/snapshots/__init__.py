"""`kraft snapshot`: takes, saves and restores snapshots."""
