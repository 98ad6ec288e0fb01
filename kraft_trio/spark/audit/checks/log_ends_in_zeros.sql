-- title: no log ends in zeros
-- reads: log_batches, log_spans
-- observes: log_spans
-- severity: error
-- a row: zeros follow the last intact batch. Nodes do not extend a log before they write to it, so records are missing
-- there: a power failure, or the copying of the file, has lost them. A node that starts cuts the zeros off.
select /*+ broadcast(s) */ b.cluster, b.replica as subject,
    coalesce(concat(s.last_place, ': the last whole batch'), concat(b.directory, ': no batch is whole')) as fact_a,
    concat(b.place, ': ', b.error) as fact_b
from log_batches b join log_spans s on s.cluster = b.cluster and s.directory = b.directory
where b.error rlike ' bytes of zeros to the end$' and (s.last_whole is null or b.order > s.last_whole)
