-- reads: metadata_rows
-- One row per state of a broker's registration, from `at` (inclusive) to `until` (exclusive; null for the end).
-- `is_fenced` also says that the broker is not registered. `is_told`: by a record that is not a registration.
select cluster, directory, replica, place, at, key, record, cast(get_json_object(after, '$.broker_epoch') as bigint) as epoch,
    get_json_object(after, '$.incarnation_id') as incarnation,
    if(after is null, 'is not registered', 'is fenced') as state,
    after is null or get_json_object(after, '$.fenced') = 'true' as is_fenced,
    record <> 'REGISTER_BROKER_RECORD' as is_told,
    lead(at) over (partition by cluster, directory, key order by at) as until
from metadata_rows where entity = 'brokers' and error is null
