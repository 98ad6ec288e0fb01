-- reads: log_control, log_spans
-- How far each replica's log had grown in each of 200 periods, in seconds since 1970. The times are those of control
-- records, which leaders write: a client may have any clock. The log's end has the last of them.
with logs as (
    select cluster, directory, offset, unix_micros(timestamp) as time_us from log_control
    where timestamp is not null and array_contains(:clusters, cluster)
),
ends as (
    select l.cluster, l.directory, s.whole_end as offset, max(l.time_us) as time_us
    from logs l join log_spans s on s.cluster = l.cluster and s.directory = l.directory
    group by l.cluster, l.directory, s.whole_end
),
points as (
    select * from logs union all select * from ends
),
spans as (
    select cluster, greatest(max(time_us) - min(time_us), 1) / 200 as width_us, min(time_us) as first_us from points
    group by cluster
)
select p.cluster, p.directory, (s.first_us + floor((p.time_us - s.first_us) / s.width_us) * s.width_us) / 1e6 as at_s,
    max(p.offset) as log_end
from points p join spans s on s.cluster = p.cluster group by 1, 2, 3 order by 1, 2, 3
