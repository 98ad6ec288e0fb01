-- invariant: 6
-- title: each epoch begins with its leader's LeaderChange
-- reads: log_epoch_starts, log_control, log_spans, log_holes
-- observes: log_epoch_starts
-- severity: error
-- a row: an epoch begins with another record. This ignores the epoch at the start of a trimmed log, and epochs whose
-- beginning is damaged.
select s.cluster, concat(s.replica, ', epoch ', s.epoch) as subject,
    concat(s.place, ': epoch ', s.epoch, ' begins at offset ', s.start_offset) as fact_a,
    'no LeaderChange of that epoch is there' as fact_b
from log_epoch_starts s
join log_spans l on l.cluster = s.cluster and l.directory = s.directory
left anti join log_holes h on h.cluster = s.cluster and h.directory = s.directory and h.end = s.start_offset
left join (select distinct cluster, directory, epoch, offset from log_control where type = 'LeaderChange') c
    on c.cluster = s.cluster and c.directory = s.directory and c.epoch = s.epoch and c.offset = s.start_offset
where c.epoch is null and (s.start_offset > l.log_start or l.log_start = 0)
