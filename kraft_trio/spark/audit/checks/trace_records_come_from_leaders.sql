-- invariant: 6
-- title: a follower appends only what the leader of that epoch appended
-- reads: events
-- observes: events where all_seen and kind = 'append' and role = 'Follower'
-- severity: error
-- a row: a follower has a record at an offset and epoch where no leader of that epoch appended one. A node may
-- recover more at its start than its trace shows, because it wrote it just before a crash.
with made as (
    select run, record_epoch, base_offset, next_offset, at from events where kind = 'append' and role = 'Leader'
),
spans as (
    select run, record_epoch, min(base_offset) as base_offset, max(next_offset) as next_offset from made group by all
),
recovered as (
    select run, max(log_end) as log_end
    from (
        select run, kind, log_end, lag(log_end) over (partition by run, replica order by at) as old_end from events
        where node is not null
    )
    where kind = 'start' and log_end > old_end group by all
),
led as (
    select distinct run, epoch from events where kind = 'role' and role = 'Leader'
),
taken as (
    select e.* from events e
    left anti join recovered r on r.run = e.run and r.log_end >= e.next_offset
    where e.kind = 'append' and e.role = 'Follower'
)
select t.run as cluster, concat('epoch ', t.record_epoch, ', offset ', t.next_offset - 1) as subject,
    concat(t.place, ': ', t.replica, ' appends up to offset ', t.next_offset, ', of epoch ', t.record_epoch, ' there')
        as fact_a,
    coalesce(
        concat('the leader of that epoch appended from offset ', s.base_offset, ' to ', s.next_offset, ' only'),
        'that epoch had no leader'
    ) as fact_b
from taken t
left join spans s on s.run = t.run and s.record_epoch = t.record_epoch
left join led l on l.run = t.run and l.epoch = t.record_epoch
where t.all_seen and (s.run is null or t.next_offset > s.next_offset or t.next_offset <= s.base_offset)
