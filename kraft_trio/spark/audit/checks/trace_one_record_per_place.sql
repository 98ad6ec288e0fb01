-- invariant: 4
-- title: a leader appends once at each offset, so (epoch, offset) names one record
-- reads: events
-- observes: events where kind = 'append' and role = 'Leader'
-- severity: error
-- a row: a leader appended twice at one offset in one epoch.
with appends as (
    select *, max(struct(next_offset, place)) over (
        partition by run, record_epoch order by at rows between unbounded preceding and 1 preceding
    ) as before
    from events where kind = 'append' and role = 'Leader'
)
select run as cluster, concat('epoch ', record_epoch, ', offset ', base_offset) as subject,
    concat(before.place, ': the leader has appended up to offset ', before.next_offset) as fact_a,
    concat(place, ': ', replica, ' appends from offset ', base_offset, ' to ', next_offset, ' in that epoch') as fact_b
from appends where base_offset < before.next_offset
