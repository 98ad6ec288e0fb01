-- invariant: 8
-- title: a state machine receives each record once, in order, without gaps
-- reads: events
-- observes: events where kind in ('apply', 'load')
-- severity: error
-- a row: a process gave its state machine a record twice, or skipped an acknowledged write.
with applied as (
    select run, node, replica, part, at, place, base_offset as first, next_offset as end,
        lag(next_offset) over one_process as before_end, lag(place) over one_process as before_place
    from (
        select run, node, replica, part, at, place, base_offset, next_offset from events where kind = 'apply'
        union all
        select run, node, replica, part, at, place, `to`, `to` from events where kind = 'load'
    )
    window one_process as (partition by run, node, part order by at)
),
values as (
    select run, explode(offsets) as offset, place, client, number from events
    where kind = 'operation' and outcome = 'ok' and from_offset is null
)
select run as cluster, replica as subject,
    concat(before_place, ': the state machine of ', replica, ' is given its log up to offset ', before_end) as fact_a,
    concat(place, ': it is given offsets from ', first, ' on') as fact_b
from applied where first < before_end
union all
select a.run, a.replica,
    concat(v.place, ': ', v.client, '/', v.number, ' is acknowledged at offset ', v.offset),
    concat(a.place, ': the state machine of ', a.replica, ', given its log up to offset ', a.before_end,
        ', goes on at ', a.first)
from applied a join values v on v.run = a.run and v.offset >= a.before_end and v.offset < a.first
where a.first > a.before_end and a.first < a.end
