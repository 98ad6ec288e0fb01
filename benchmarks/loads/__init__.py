"""Load programs: each runs in a process of its own and prints one JSON line (`measurement.LoadResult`)."""
