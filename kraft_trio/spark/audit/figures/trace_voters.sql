-- reads: events, logged_voters
-- Voter sets over time: the first one published, then each one that a leader appended.
with first as (
    select run as cluster, min_by(voters, at) as ids, min(time_us) as time_us from events
    where size(voters) > 0 and array_contains(:clusters, run) group by run
)
select cluster, time_us / 1e6 as began_s, transform(ids, id -> cast(id as string)) as voters from first
union all
select v.run, e.time_us / 1e6, transform(v.voters, v -> split_part(v, '-', 1))
from logged_voters v join events e on e.run = v.run and e.at = v.since
where v.role = 'Leader' and array_contains(:clusters, v.run)
order by cluster, began_s
