-- reads: events
-- The highest number of committed offsets that a node lacked in each of 200 periods.
with spans as (
    select run, greatest(max(time_us) - min(time_us), 1) / 200 as width_us, min(time_us) as first_us from events
    where array_contains(:clusters, run) group by run
)
select e.run as cluster, e.node, (s.first_us + floor((e.time_us - s.first_us) / s.width_us) * s.width_us) / 1e6 as at_s,
    max(greatest(coalesce(e.committed_end, 0) - e.log_end, 0)) as lag
from events e join spans s on s.run = e.run where e.node is not null and e.log_end is not null
group by 1, 2, 3 order by 1, 2, 3
