"""Apache Kafka's metadata as tables: its records in typed columns, the state at a moment, and every change.

`replaying` applies a replica's records; `state` and `changes` make rows of the result, and `typed_records` of the
records themselves.  `reader` is what Spark calls, and `local` what works without Spark.
"""
