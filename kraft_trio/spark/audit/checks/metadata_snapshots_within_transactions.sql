-- title: a snapshot has no records of a transaction that has not ended
-- reads: metadata_open, log_snapshots
-- observes: log_snapshots where end_offset > 0
-- severity: error
-- a row: a snapshot ends between the beginning and the end of a transaction of metadata (KIP-868). Controllers take
-- snapshots of what counts, and records of an open transaction do not count yet.
select s.cluster, concat(s.replica, ', snapshot ', s.end_offset) as subject,
    concat(s.place, ': it ends at offset ', s.end_offset) as fact_a,
    concat(t.directory, ': a transaction begins at offset ', t.first, if(t.last is null, ' and does not end',
        concat(' and has its ', t.outcome, ' at offset ', t.last))) as fact_b
from log_snapshots s join metadata_open t on t.cluster = s.cluster and t.directory = s.directory
where s.end_offset > t.first and (t.last is null or s.end_offset <= t.last)
