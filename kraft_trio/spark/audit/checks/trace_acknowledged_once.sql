-- invariant: 21
-- title: no offset is acknowledged for two writes
-- reads: events
-- observes: events where kind = 'operation' and outcome = 'ok' and from_offset is null
-- severity: error
-- a row: two writes were acknowledged at one offset.
with acknowledged as (
    select run, at, place, concat(client, '/', number) as name, explode(offsets) as offset
    from events where kind = 'operation' and outcome = 'ok' and from_offset is null
)
select run as cluster, concat('offset ', offset) as subject,
    concat(min_by(place, at), ': ', min_by(name, at), ' is acknowledged at offset ', offset) as fact_a,
    concat(max_by(place, at), ': so is ', max_by(name, at)) as fact_b
from acknowledged group by run, offset having count(*) > 1
