-- reads: log_control, batches
-- Who led when, by the times of the LeaderChange records: one row per epoch, in seconds since 1970.
with changes as (
    select distinct cluster, epoch, leader_id as node, timestamp from log_control
    where type = 'LeaderChange' and array_contains(:clusters, cluster)
),
ends as (
    select b.cluster, max(b.max_timestamp) as last from (
        select coalesce(cluster_id, 'unknown') as cluster, max_timestamp from batches where error is null
    ) b group by b.cluster
)
select c.cluster, c.node, c.epoch, unix_micros(c.timestamp) / 1e6 as began_s,
    unix_micros(coalesce(lead(c.timestamp) over (partition by c.cluster order by c.epoch), e.last)) / 1e6 as ended_s
from changes c join ends e on e.cluster = c.cluster order by c.cluster, began_s
