"""Snapshots: taking, checking, serving and downloading them, and trimming the log behind them.

`SnapshotTaker` and `SnapshotFetch` own the set of snapshots, `LogCleaner` owns the log's start.
Doors: `SnapshotTaker`, `SnapshotFetch`, `SnapshotServer`.
"""
