-- invariant: 19
-- title: snapshots with the same id have the same content
-- reads: log_snapshots
-- observes: log_snapshots where end_offset > 0
-- severity: error
-- a row: two replicas have snapshots with different records under one id. Bootstrap checkpoints, at offset 0, are not
-- compared.
with files as (
    select cluster, end_offset, epoch, content_sha256, min(place) as place, min(size) as size
    from log_snapshots where end_offset > 0 and valid group by cluster, end_offset, epoch, content_sha256
)
select a.cluster, concat('snapshot ', a.end_offset, '@', a.epoch) as subject,
    concat(a.place, ': ', a.size, ' bytes, SHA-256 of the records ', a.content_sha256) as fact_a,
    concat(b.place, ': ', b.size, ' bytes, SHA-256 of the records ', b.content_sha256) as fact_b
from files a join files b
    on a.cluster = b.cluster and a.end_offset = b.end_offset and a.epoch = b.epoch
    and a.content_sha256 < b.content_sha256
