-- title: no log ends in zeros before its last segment
-- reads: log_batches, log_spans, log_replicas
-- observes: log_spans
-- severity: error
-- a row: zeros follow the last intact batch, in a segment that is not the last. A node cuts the zeros behind a segment's
-- batches before it begins the next one, so records are missing there: a power failure, or the copying of the file, has
-- lost them. In the last segment, zeros are space for appends.
select /*+ broadcast(s), broadcast(r) */ b.cluster, b.replica as subject,
    coalesce(concat(s.last_place, ': the last whole batch'), concat(b.directory, ': no batch is whole')) as fact_a,
    concat(b.place, ': ', b.error) as fact_b
from log_batches b join log_spans s on s.cluster = b.cluster and s.directory = b.directory
join log_replicas r on r.cluster = b.cluster and r.directory = b.directory
where b.error rlike ' bytes of zeros to the end$' and b.segment < r.last_segment
    and (s.last_whole is null or b.order > s.last_whole)
