-- invariant: 18
-- title: every snapshot is complete
-- reads: log_snapshots
-- observes: log_snapshots
-- severity: error
-- a row: a snapshot is cut, damaged or not a snapshot at all.
select cluster, concat(replica, ', offset ', end_offset) as subject,
    concat(place, ': a snapshot of all below offset ', end_offset) as fact_a,
    coalesce(error, 'it is not whole') as fact_b
from log_snapshots where not coalesce(valid, false)
