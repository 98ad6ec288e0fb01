-- title: a log ends with a complete batch
-- reads: log_batches, log_spans, log_replicas
-- observes: log_spans where last_whole is not null
-- severity: warning
-- a row: the end of a log is torn or damaged, by a crash or because a running node's file was copied. Zeros may follow a
-- torn batch. Zeros in a segment that is not the last are reported by log_ends_in_zeros.
select /*+ broadcast(s), broadcast(r) */ b.cluster, b.replica as subject,
    concat(s.last_place, ': the last whole batch') as fact_a, concat(b.place, ': ', b.error) as fact_b
from log_batches b join log_spans s on s.cluster = b.cluster and s.directory = b.directory
join log_replicas r on r.cluster = b.cluster and r.directory = b.directory
where b.error is not null and b.position is not null
    and not (b.error rlike ' bytes of zeros to the end$' and b.segment < r.last_segment)
    and (s.last_whole is null or b.order > s.last_whole)
