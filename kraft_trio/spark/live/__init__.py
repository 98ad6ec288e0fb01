"""A live quorum's committed records for Spark: in batches, and as a stream that a checkpoint resumes.

`reader` and `batch` are what Spark calls; `quorum` asks the leader, for the driver (`planning`) and the tasks
(`fetching`).
"""
