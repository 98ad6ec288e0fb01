-- title: no log ends in zeros that no node preallocates
-- reads: log_batches, log_spans
-- observes: log_spans
-- severity: error
-- a row: zeros follow the last intact batch, in a segment that is not the last, or more than 1 MiB of them. A node cuts
-- the zeros behind a segment's batches before it begins the next one, so records are missing there: a power failure, or
-- the copying of the file, has lost them. The reader names no zeros that are space for appends.
select /*+ broadcast(s) */ b.cluster, b.replica as subject,
    coalesce(concat(s.last_place, ': the last whole batch'), concat(b.directory, ': no batch is whole')) as fact_a,
    concat(b.place, ': ', b.error) as fact_b
from log_batches b join log_spans s on s.cluster = b.cluster and s.directory = b.directory
where b.error rlike ' bytes of zeros to the end$' and (s.last_whole is null or b.order > s.last_whole)
