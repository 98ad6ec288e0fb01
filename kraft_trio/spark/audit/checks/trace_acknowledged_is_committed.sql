-- invariant: 21
-- title: an acknowledged write is committed
-- reads: events
-- observes: events where all_seen and kind = 'operation' and outcome = 'ok' and from_offset is null
-- severity: error
-- a row: a client's write was acknowledged before a leader had committed it.
select run as cluster, concat('offset ', array_max(offsets)) as subject,
    concat(place, ': ', client, '/', number, ' is acknowledged at offset ', array_max(offsets)) as fact_a,
    concat('leaders have committed up to offset ', coalesce(committed_end, 0), ' by then') as fact_b
from events
where all_seen and kind = 'operation' and outcome = 'ok' and from_offset is null
    and array_max(offsets) >= coalesce(committed_end, 0)
