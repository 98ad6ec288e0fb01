"""A replica on disk, in rooms by subject: the log, snapshots, quorum-state."""
