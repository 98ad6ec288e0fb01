-- title: a log ends with a complete batch
-- reads: log_batches, log_spans
-- observes: log_spans where last_whole is not null
-- severity: warning
-- a row: the end of a log is torn or damaged, by a crash or because a running node's file was copied. Zeros that no node
-- preallocates are reported by log_ends_in_zeros.
select /*+ broadcast(s) */ b.cluster, b.replica as subject,
    concat(s.last_place, ': the last whole batch') as fact_a, concat(b.place, ': ', b.error) as fact_b
from log_batches b join log_spans s on s.cluster = b.cluster and s.directory = b.directory
where b.error is not null and b.position is not null and not b.error rlike ' bytes of zeros to the end$'
    and (s.last_whole is null or b.order > s.last_whole)
