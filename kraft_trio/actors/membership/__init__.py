"""Who votes: voter changes, reassignments, transfers of leadership, and what voters report about themselves.

`VoterChangeCoordinator` owns the changes under way; the voter sets themselves belong to the log, which folds them.
Doors: `VoterChangeCoordinator`, `InternalListener`, `VoterGossip`.
"""
