-- invariant: 21
-- title: a read returns every acknowledged write in its range
-- reads: events
-- observes: events where kind = 'operation' and outcome = 'ok' and from_offset is not null
-- severity: error
-- a row: a read did not return the value of a write acknowledged at an offset in its range.
with acknowledged as (
    select run, place, client, number, explode(offsets) as offset
    from events where kind = 'operation' and outcome = 'ok' and from_offset is null
),
reads as (
    select * from events
    where kind = 'operation' and outcome = 'ok' and from_offset is not null and end_offset > from_offset
)
select r.run as cluster, concat('offset ', a.offset) as subject,
    concat(a.place, ': ', a.client, '/', a.number, ' is acknowledged at offset ', a.offset) as fact_a,
    concat(r.place, ': ', r.client, '/', r.number, ' reads from offset ', r.from_offset, ' to ', r.end_offset,
        ' and is not given it') as fact_b
from reads r join acknowledged a
    on a.run = r.run and a.offset >= r.from_offset and a.offset < r.end_offset
where not array_contains(r.offsets, a.offset)
