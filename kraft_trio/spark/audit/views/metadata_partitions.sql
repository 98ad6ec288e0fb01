-- reads: metadata_rows
-- One row per state of a partition, from `at` (inclusive) to the partition's next row. All is null once it is deleted.
-- `is_chosen`: the leader is another than before.
select cluster, directory, replica, place, at, key, operation <> 'update' or array_contains(changed, 'leader') as is_chosen,
    cast(get_json_object(after, '$.leader') as int) as leader, ints(get_json_object(after, '$.isr')) as isr,
    ints(get_json_object(after, '$.replicas')) as replicas
from metadata_rows where entity = 'partitions' and error is null
