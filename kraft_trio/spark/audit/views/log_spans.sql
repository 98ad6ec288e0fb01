-- reads: log_batches
-- One row per directory: where its log begins and ends (exclusive), and the position of its last intact batch.
-- `whole_end` is the end of the intact batches; null without one.
-- A log begins where the name of its first file says, even if the first batch is damaged.
with segments as (
    select cluster, directory, replica, segment, min(least(base_offset, segment)) as base_offset, max(last_offset) as last_offset,
        max(if(error is null, position, null)) as last_whole, max(if(error is null, last_offset, null)) as last_whole_offset,
        count(*) as batches, sum(size) as bytes
    from log_batches group by cluster, directory, replica, segment
),
logs as (
    select cluster, directory, max(replica) as replica, min(base_offset) as log_start, max(last_offset) + 1 as log_end,
        max(struct(segment, last_whole as position)) filter (where last_whole is not null) as last_whole,
        max(last_whole_offset) + 1 as whole_end, sum(batches) as batches, sum(bytes) as bytes
    from segments group by cluster, directory
),
lasts as (
    select /*+ broadcast(l) */ l.cluster, l.directory, b.epoch, b.place
    from log_batches b join logs l
        on l.cluster = b.cluster and l.directory = b.directory and l.last_whole.segment = b.segment
        and l.last_whole.position = b.position
    where b.error is null
)
select l.*, b.epoch as last_epoch, b.place as last_place
from logs l left join lasts b on b.cluster = l.cluster and b.directory = l.directory
