-- reads: log_batches
-- One row an epoch of a log: its first batch.
select cluster, directory, max(replica) as replica, epoch, min(base_offset) as start_offset,
    min_by(control, base_offset) as control, min_by(place, base_offset) as place
from log_batches where base_offset is not null and error is null
group by cluster, directory, epoch
