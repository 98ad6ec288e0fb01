-- reads: events
-- Time from the first node that asked for votes to the next leader, in milliseconds.
with marks as (
    select run, at, time_us, epoch, role,
        count_if(role = 'Leader') over (
            partition by run order by at rows between unbounded preceding and 1 preceding
        ) as leaders
    from events
    where kind = 'role' and role in ('Prospective', 'Candidate', 'Leader') and not was <=> role
        and array_contains(:clusters, run)
)
select run as cluster, max(if(role = 'Leader', epoch, null)) as epoch, max(if(role = 'Leader', time_us, null)) / 1e6 as at_s,
    (max(if(role = 'Leader', time_us, null)) - min(time_us)) / 1e3 as duration_ms
from marks group by run, leaders having max(if(role = 'Leader', 1, 0)) = 1 order by cluster, epoch
