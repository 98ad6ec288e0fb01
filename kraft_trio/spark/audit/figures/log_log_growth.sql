-- reads: batches
-- How far each replica's log had grown in each of 200 periods, in seconds since 1970.
with logs as (
    select coalesce(cluster_id, 'unknown') as cluster, directory, last_offset, unix_micros(max_timestamp) as time_us
    from batches
    where error is null and max_timestamp is not null and array_contains(:clusters, coalesce(cluster_id, 'unknown'))
),
spans as (
    select cluster, greatest(max(time_us) - min(time_us), 1) / 200 as width_us, min(time_us) as first_us from logs
    group by cluster
)
select l.cluster, l.directory, (s.first_us + floor((l.time_us - s.first_us) / s.width_us) * s.width_us) / 1e6 as at_s,
    max(l.last_offset) + 1 as log_end
from logs l join spans s on s.cluster = l.cluster group by 1, 2, 3 order by 1, 2, 3
