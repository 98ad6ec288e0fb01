-- invariant: 21
-- title: an operation takes effect after all operations that ended before it began
-- reads: events
-- observes: events where all_seen and kind = 'operation' and outcome = 'ok'
-- severity: error
-- a row: an operation took effect at or below the offset of one that had ended before it began.
with operations as (
    select run, client, number, min(at) as began, max(at) as ended,
        max_by(struct(place, offsets, from_offset, end_offset, linearizable, outcome), at) as last
    from events where kind = 'operation' and all_seen group by all
),
effects as (
    select run, client, number, began, ended, last.place as place, last.from_offset is not null as is_read,
        if(last.from_offset is null, array_min(last.offsets), last.end_offset) as first,
        array_max(last.offsets) + 1 as end, last.linearizable as linearizable
    from operations where last.outcome = 'ok' and began < ended
),
moments as (
    select run, ended as at, struct(end, concat(place, ': ', client, '/', number, ' ends, with an effect below offset ',
        end) as fact) as done, null as operation
    from effects where end is not null
    union all
    select run, began, null, struct(client, number, first, place, is_read, linearizable) from effects
    where first is not null
),
floors as (
    select *, max(done) over (partition by run order by at rows between unbounded preceding and current row) as floor
    from moments
)
select run as cluster, concat('offset ', operation.first) as subject, floor.fact as fact_a,
    concat(operation.place, ': ', operation.client, '/', operation.number, ', begun later, ',
        if(operation.is_read, 'reads up to', 'is acknowledged at'), ' offset ', operation.first) as fact_b
from floors
where operation is not null and floor.end > operation.first and operation.linearizable
