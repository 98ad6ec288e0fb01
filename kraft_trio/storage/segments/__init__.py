"""The files of a log: segments with their indexes, and the files next to them.

`Segments` owns the open files of one log.
Doors: `Segments`, `plan_retention`; checkpoints of epochs, producers and the recovery point have a file each.
"""
