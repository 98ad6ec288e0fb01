"""The disk as nodes use it: its interface, real disks with their threads and locks, files whose names have a meaning.

`RealDisk` owns open files and descriptors; the simulator has a disk of its own behind the same interface.
Doors: `Disk`, `RealDisk`, `PartFile`, and the names in `partition_files`.
"""
