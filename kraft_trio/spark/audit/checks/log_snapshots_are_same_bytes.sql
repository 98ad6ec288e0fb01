-- invariant: 19
-- title: snapshots with the same id are equal byte for byte
-- reads: log_snapshots
-- observes: log_snapshots where end_offset > 0
-- severity: warning
-- a row: two replicas have different files with the same records under one id. Nodes of kraft-trio write identical
-- files; those of Apache Kafka include the time of writing.
with files as (
    select cluster, end_offset, epoch, content_sha256, sha256, min(place) as place
    from log_snapshots where end_offset > 0 and valid group by cluster, end_offset, epoch, content_sha256, sha256
)
select a.cluster, concat('snapshot ', a.end_offset, '@', a.epoch) as subject,
    concat(a.place, ': SHA-256 ', a.sha256) as fact_a, concat(b.place, ': SHA-256 ', b.sha256) as fact_b
from files a join files b
    on a.cluster = b.cluster and a.end_offset = b.end_offset and a.epoch = b.epoch
    and a.content_sha256 = b.content_sha256 and a.sha256 < b.sha256
