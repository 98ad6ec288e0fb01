-- reads: events
-- Who led when: one row per leadership, in seconds. A clock that was set back shortens it.
with roles as (
    select run as cluster, node, kind, role, epoch, time_us, max(time_us) over (partition by run) as end_us,
        lead(time_us) over (partition by run, node order by at) as next_us
    from events where kind in ('role', 'end') and array_contains(:clusters, run)
)
select cluster, node, epoch, time_us / 1e6 as began_s, greatest(time_us, coalesce(next_us, end_us)) / 1e6 as ended_s
from roles where kind = 'role' and role = 'Leader' order by cluster, began_s
