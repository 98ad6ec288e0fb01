"""Simulated seeds by the million on Spark's executors.

`run` hands out chunks of seeds, `task` simulates one chunk, and `files` is the directory of the results.
"""
