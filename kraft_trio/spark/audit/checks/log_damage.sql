-- title: no part of a log is damaged
-- reads: log_batches, log_spans, log_breaks
-- observes: log_batches where position is not null
-- severity: error
-- a row: bytes that are not a batch, or a misplaced batch or segment, before intact batches. Other checks report what
-- offsets or epochs show to be misplaced.
select /*+ broadcast(s) */ b.cluster, concat(b.replica, ', position ', b.position) as subject, concat(b.place, ': ', b.error) as fact_a,
    concat(s.last_place, ': a whole batch stands behind it') as fact_b
from log_batches b join log_spans s on s.cluster = b.cluster and s.directory = b.directory
left anti join log_breaks k
    on k.cluster = b.cluster and k.directory = b.directory and b.order >= k.before.order and b.order <= k.order
where b.error is not null and not coalesce(not b.crc_ok, false) and b.order < s.last_whole
