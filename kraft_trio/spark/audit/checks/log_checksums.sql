-- title: every batch matches its CRC
-- reads: log_batches, log_spans
-- observes: log_batches where crc_ok is not null
-- severity: error
-- a row: the bytes of a batch have changed since they were written, and intact batches follow.
select /*+ broadcast(s) */ b.cluster, concat(b.replica, ', offset ', b.base_offset) as subject, concat(b.place, ': ', b.error) as fact_a,
    concat(s.last_place, ': a whole batch stands behind it') as fact_b
from log_batches b join log_spans s on s.cluster = b.cluster and s.directory = b.directory
where not b.crc_ok and b.order < s.last_whole
