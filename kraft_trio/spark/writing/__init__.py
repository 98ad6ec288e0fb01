"""Rows of Spark appended to a quorum's log, each once.

`writer` is what Spark calls; `appending` sends a partition's batches; `completeness` checks the result in the driver.
"""
