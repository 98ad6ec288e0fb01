-- reads: metadata_rows, metadata_snapshots
-- stored: no
-- What logs and snapshots say of each thing, in a form in which a snapshot of Kafka's says the same as its log: that
-- orders end points and directories in another way, and does not tell who asked for the producer ids.
-- `value` is empty for what is deleted. `end_offset` and `epoch` are those of a snapshot; null for a log.
with things as (
    select cluster, directory, place, at, entity, key, after, null as end_offset, null as epoch
    from metadata_rows where error is null
    union all
    select coalesce(cluster_id, 'unknown'), directory, directory, -1, entity, key, value, end_offset, epoch
    from metadata_snapshots where error is null
)
select cluster, directory, place, at, entity, key, end_offset, epoch,
    coalesce(
        case
            when after is null then ''
            when entity = 'brokers' then concat_ws(
                ' ',
                get_json_object(after, '$.incarnation_id'), get_json_object(after, '$.broker_epoch'),
                if(get_json_object(after, '$.fenced') = 'true', 'fenced', 'unfenced'),
                if(get_json_object(after, '$.in_controlled_shutdown') = 'true', 'in controlled shutdown', null),
                get_json_object(after, '$.rack')
            )
            when entity = 'controllers' then get_json_object(after, '$.incarnation_id')
            when entity = 'producer_ids' then get_json_object(after, '$.next_producer_id')
            when entity = 'client_quotas' then get_json_object(after, '$.value')
            else after
        end,
        ''
    ) as value
from things
