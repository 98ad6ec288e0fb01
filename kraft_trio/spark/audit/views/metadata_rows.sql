-- reads: metadata_changes
-- stored: no
-- The changes of Kafka's metadata, and the records that were refused, up to the first place at which a log is
-- unreadable: what follows would change things that nobody knows.
-- `at`: offset of the record; -1 for what the log's oldest snapshot has.
with unread as (
    select directory, min(coalesce(offset, -1)) as at from metadata_changes
    where error is not null and epoch is null group by directory
)
select coalesce(c.cluster_id, 'unknown') as cluster, c.directory,
    coalesce(concat_ws('-', c.node, c.directory_id), c.directory) as replica, coalesce(c.offset, -1) as at, c.epoch,
    c.record, c.entity, c.key, c.operation, c.changed, c.after, c.error,
    if(c.offset is null, concat(c.directory, ', the snapshot before its log'),
        concat(c.directory, ', offset ', c.offset)) as place
from metadata_changes c left join unread u on u.directory = c.directory
where (u.at is null or coalesce(c.offset, -1) < u.at) and not (c.error is not null and c.epoch is null)
