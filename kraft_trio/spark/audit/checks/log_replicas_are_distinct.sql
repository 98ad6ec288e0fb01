-- title: each directory is a replica of its own
-- reads: log_replicas
-- observes: log_replicas where node is not null
-- severity: error
-- a row: two directories have the same directory id, or the same node id without one. They are copies of one replica,
-- and add nothing to what the others hold. Two directories of one node with different directory ids are two disks.
with named as (
    select *, min(directory) over (partition by cluster, coalesce(directory_id, concat('node ', node))) as first
    from log_replicas where node is not null
)
select n.cluster, n.replica as subject,
    concat(f.directory, ': ', f.replica, ', its log ends at offset ', coalesce(f.log_end, 0)) as fact_a,
    concat(n.directory, ': ', n.replica, ', its log ends at offset ', coalesce(n.log_end, 0)) as fact_b
from named n join log_replicas f on f.cluster = n.cluster and f.directory = n.first
where n.directory <> n.first
