-- reads: log_batches
-- One row per epoch of a log: its first batch.
with starts as (
    select cluster, directory, epoch, min(base_offset) as start_offset
    from log_batches where base_offset is not null and error is null group by cluster, directory, epoch
)
select /*+ broadcast(s) */ s.cluster, s.directory, max(b.replica) as replica, s.epoch, s.start_offset, min_by(b.control, b.order) as control,
    min_by(b.place, b.order) as place
from starts s join log_batches b
    on b.cluster = s.cluster and b.directory = s.directory and b.epoch = s.epoch and b.base_offset = s.start_offset
where b.error is null
group by s.cluster, s.directory, s.epoch, s.start_offset
