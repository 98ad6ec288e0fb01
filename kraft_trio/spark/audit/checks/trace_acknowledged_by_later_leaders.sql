-- invariant: 7
-- title: a leader's log has every write acknowledged before its election
-- reads: events
-- observes: events where all_seen and kind = 'operation' and outcome = 'ok' and from_offset is null
-- severity: error
-- a row: a write was acknowledged, and the log of a leader elected later ends before it.
with acknowledged as (
    select run, at, place, client, number, array_max(offsets) as offset
    from events
    where all_seen and kind = 'operation' and outcome = 'ok' and from_offset is null and size(offsets) > 0
),
elected as (
    select *, min(log_end) over (partition by run) as shortest
    from events where kind = 'role' and role = 'Leader' and not was <=> 'Leader' and all_seen
)
select e.run as cluster, concat('offset ', max_by(a.offset, a.at)) as subject,
    concat(max_by(a.place, a.at), ': ', max_by(concat(a.client, '/', a.number), a.at), ' is acknowledged at offset ',
        max_by(a.offset, a.at)) as fact_a,
    concat(e.place, ': ', e.replica, ' leads epoch ', e.epoch, ' with a log that ends at ', e.log_end) as fact_b
from elected e join acknowledged a on a.run = e.run and a.at < e.at and a.offset >= e.log_end
group by e.run, e.place, e.replica, e.epoch, e.log_end
