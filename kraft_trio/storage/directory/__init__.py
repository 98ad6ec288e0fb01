"""A replica's directory, without log and snapshots: who it belongs to, quorum-state, what other programs left there.

Whoever holds the lock of a directory owns its files.
Doors: `LockedDirectory`, `format_directory`, `QuorumStateFile`, `known_directory_id`.
"""
