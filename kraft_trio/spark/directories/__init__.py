"""Replicas' directories as tables: finds what there is to read, divides it into tasks, and reads one task.

`replicas` finds, `pieces` divides, `reading` reads; `partitions` is what Spark calls; `files` opens paths and URLs.
"""
