-- invariant: 19
-- title: snapshots with the same id are equal byte for byte
-- reads: log_snapshots, log_states
-- observes: log_snapshots where end_offset > 0
-- severity: warning
-- a row: two replicas have different files with the same records under one id. Nodes of kraft-trio write identical
-- files. Those of Apache Kafka include the time of writing; directories whose quorum-state has no CRC are theirs.
with files as (
    select s.cluster, s.end_offset, s.epoch, s.content_sha256, s.sha256, min(s.place) as place
    from log_snapshots s left semi join log_states o
        on o.cluster = s.cluster and o.directory = s.directory and o.crc_ok is not null
    where s.end_offset > 0 and s.valid group by s.cluster, s.end_offset, s.epoch, s.content_sha256, s.sha256
)
select a.cluster, concat('snapshot ', a.end_offset, '@', a.epoch) as subject,
    concat(a.place, ': SHA-256 ', a.sha256) as fact_a, concat(b.place, ': SHA-256 ', b.sha256) as fact_b
from files a join files b
    on a.cluster = b.cluster and a.end_offset = b.end_offset and a.epoch = b.epoch
    and a.content_sha256 = b.content_sha256 and a.sha256 < b.sha256
