-- invariant: 14
-- title: a leader changes no voters before it knows its high watermark
-- reads: voter_changes, events
-- observes: voter_changes where role = 'Leader'
-- severity: error
-- a row: a leader that has committed nothing in its epoch appends a new voter set. If the trace lacks the election,
-- it may also lack the first commit; if nothing else is missing, the high watermark then lies above the end of the
-- log at the election.
with first_marks as (
    select run, epoch, min(at) as at from events where kind = 'high_watermark' and role = 'Leader' group by all
),
elected as (
    select run, node, epoch, min(log_end) as log_end
    from events where kind = 'role' and role = 'Leader' and not was <=> 'Leader' group by all
)
select c.run as cluster, concat('epoch ', c.epoch, ', offset ', c.offset) as subject,
    concat(c.place, ': ', c.replica, ' changes the voters from {', array_join(c.old, ', '), '} to {',
        array_join(c.voters, ', '), '}') as fact_a,
    concat('it has committed nothing in epoch ', c.epoch, ' by then') as fact_b
from voter_changes c
join elected e on e.run = c.run and e.node = c.node and e.epoch = c.epoch
left join first_marks f on f.run = c.run and f.epoch = c.epoch
where c.role = 'Leader' and size(c.changed) > 0 and (f.at is null or f.at > c.since)
    and coalesce(c.high_watermark, 0) <= e.log_end
