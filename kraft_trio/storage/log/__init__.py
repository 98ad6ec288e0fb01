"""The replicated log: recovery at start, appends, truncation, fsyncs, trimming, and news of commits.

One task at a time owns the end of the log; `Durability` owns fsyncs, and `LogTrimmer` the start.
Door: `Log`.
"""
