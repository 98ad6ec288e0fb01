-- invariant: 18
-- title: a log that begins above 0 has a complete snapshot that reaches it
-- reads: log_spans, log_snapshots
-- observes: log_spans where log_start > 0
-- severity: error
-- a row: the records before the start of a log are in no snapshot.
select l.cluster, l.replica as subject, concat(l.directory, ': the log begins at offset ', l.log_start) as fact_a,
    coalesce(concat(max_by(s.place, s.end_offset), ': the newest whole snapshot ends at ', max(s.end_offset)),
        'no snapshot is whole') as fact_b
from log_spans l left join log_snapshots s on s.cluster = l.cluster and s.directory = l.directory and s.valid
group by l.cluster, l.directory, l.replica, l.log_start
having l.log_start > coalesce(max(s.end_offset), 0)
