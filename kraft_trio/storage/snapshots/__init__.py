"""Snapshots: written, read, downloaded in pieces, listed; and the bootstrap checkpoint.

A writer or a download owns its unfinished file until it is complete; `Snapshots` owns the list of complete ones.
Doors: `Snapshots`, `open_snapshot`, `SnapshotWriter`, `SnapshotDownload`.
"""
