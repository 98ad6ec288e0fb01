-- invariant: 19
-- title: snapshots with the same id have the same content
-- reads: log_snapshots, log_states
-- observes: log_snapshots where end_offset > 0
-- severity: error
-- a row: two replicas have snapshots with different records under one id. Bootstrap checkpoints, at offset 0, are not
-- compared. Nodes of Apache Kafka write equal things in any order: metadata_snapshots_are_equal compares theirs.
-- Directories whose quorum-state has no CRC are theirs.
with files as (
    select s.cluster, s.end_offset, s.epoch, s.content_sha256, min(s.place) as place, min(s.size) as size
    from log_snapshots s left anti join log_states o
        on o.cluster = s.cluster and o.directory = s.directory and o.crc_ok is null and o.error is null
    where s.end_offset > 0 and s.valid group by s.cluster, s.end_offset, s.epoch, s.content_sha256
)
select a.cluster, concat('snapshot ', a.end_offset, '@', a.epoch) as subject,
    concat(a.place, ': ', a.size, ' bytes, SHA-256 of the records ', a.content_sha256) as fact_a,
    concat(b.place, ': ', b.size, ' bytes, SHA-256 of the records ', b.content_sha256) as fact_b
from files a join files b
    on a.cluster = b.cluster and a.end_offset = b.end_offset and a.epoch = b.epoch
    and a.content_sha256 < b.content_sha256
