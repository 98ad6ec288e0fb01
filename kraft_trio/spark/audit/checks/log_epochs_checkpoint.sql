-- title: leader-epoch-checkpoint agrees with the log
-- reads: epochs, log_epoch_starts, log_spans, log_holes, log_snapshots
-- observes: epochs where epoch is not null
-- severity: warning
-- a row: the file has another start for an epoch, or an epoch that the log lacks. Opening the log rewrites the file.
-- An epoch that begins in a damaged part may be right, and so may one that begins at the log's end: its leader has
-- written no record yet. A log that begins at a snapshot within its first segment has its first epoch begin there.
with said as (
    select coalesce(cluster_id, 'unknown') as cluster, directory, epoch, start_offset, error,
        min(epoch) over (partition by cluster_id, directory) as first_epoch
    from epochs
)
select c.cluster, concat(c.directory, ', epoch ', c.epoch) as subject,
    concat(c.directory, ', leader-epoch-checkpoint: epoch ', c.epoch, ' begins at offset ', c.start_offset) as fact_a,
    coalesce(concat(s.place, ': it begins at offset ', s.start_offset), 'the log has no record of that epoch') as fact_b
from said c
join log_spans l on l.cluster = c.cluster and l.directory = c.directory
left anti join log_holes h
    on h.cluster = c.cluster and h.directory = c.directory and c.start_offset >= h.first and c.start_offset < h.end
left anti join log_snapshots n
    on n.cluster = c.cluster and n.directory = c.directory and n.end_offset = c.start_offset and c.epoch = c.first_epoch
left join log_epoch_starts s on s.cluster = c.cluster and s.directory = c.directory and s.epoch = c.epoch
where c.epoch is not null and c.start_offset > l.log_start and not s.start_offset <=> c.start_offset
    and not (s.start_offset is null and c.start_offset <=> l.whole_end)
union all
select c.cluster, c.directory, concat(c.directory, ', leader-epoch-checkpoint'), c.error
from said c join log_spans l on l.cluster = c.cluster and l.directory = c.directory and l.log_end is not null
where c.error is not null
