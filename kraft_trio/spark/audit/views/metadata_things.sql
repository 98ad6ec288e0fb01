-- reads: metadata_rows, metadata_snapshots
-- stored: no
-- What logs and snapshots say of each thing. `value` is empty for what is deleted.
-- `end_offset` and `epoch` are those of a snapshot; null for a log.
select cluster, directory, at, entity, key, coalesce(after, '') as value, null as end_offset, null as epoch
from metadata_rows where error is null
union all
select coalesce(cluster_id, 'unknown'), directory, -1, entity, key, value, end_offset, epoch
from metadata_snapshots where error is null
