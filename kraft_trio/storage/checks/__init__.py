"""Checks of whole directories: one replica by itself, or replicas of a quorum against each other.

A check changes nothing.  `quarantine` notes damage in the directory, so that no later start misses it.
Doors: `check_partition`, `first_difference`, `note_damage` and `refuse_damaged`.
"""
