-- invariant: 5
-- title: the offsets of a log have no gaps or overlaps
-- reads: log_breaks, log_batches
-- observes: log_batches where base_offset is not null
-- severity: error
-- a row: a batch does not begin where the one before it ends.
select cluster, concat(replica, ', offset ', base_offset) as subject,
    concat(before.place, ': the batch ends with offset ', before.last_offset) as fact_a,
    concat(place, ': the next one begins with offset ', base_offset) as fact_b
from log_breaks where base_offset <> before.last_offset + 1
