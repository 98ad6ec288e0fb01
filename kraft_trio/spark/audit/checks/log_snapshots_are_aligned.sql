-- invariant: 18
-- title: a snapshot ends after a batch of its epoch
-- reads: log_snapshots, log_batches
-- observes: log_snapshots where end_offset > 0
-- severity: error
-- a row: at the end of a snapshot, the log beside it has a batch of a later epoch, or a batch that continues past it.
-- A batch of an earlier epoch is allowed: the node stopped before the snapshot replaced the log.
with ends as (
    select cluster, directory, end_offset, epoch, place from log_snapshots where valid and end_offset > 0
)
select /*+ broadcast(s) */ b.cluster, concat(b.replica, ', offset ', s.end_offset) as subject,
    concat(s.place, ': a snapshot of all below offset ', s.end_offset, ', the last of epoch ', s.epoch) as fact_a,
    concat(b.place, ': offsets ', b.base_offset, ' to ', b.last_offset, ' are one batch of epoch ', b.epoch) as fact_b
from log_batches b join ends s on s.cluster = b.cluster and s.directory = b.directory
where b.base_offset < s.end_offset and b.last_offset >= s.end_offset - 1 and b.error is null
    and (b.epoch > s.epoch or (b.epoch = s.epoch and b.last_offset > s.end_offset - 1))
