-- invariant: 23
-- title: a directory id belongs to one cluster
-- reads: log_replicas, log_control, log_snapshots
-- observes: log_replicas where directory_id is not null
-- severity: error
-- a row: a directory's meta.properties names another cluster than the one that has its directory id, as a voter or on
-- another disk. Of the two clusters, the one with fewer directories is taken for the wrong one.
with sets as (
    select cluster, voters, place from log_control where type = 'Voters'
    union all
    select cluster, voters, place from log_snapshots where valid and size(voters) > 0
),
known as (
    select s.cluster, v.voter as replica, concat(min(s.place), ': a voter of cluster ', s.cluster) as fact
    from sets s lateral view explode(s.voters) v as voter group by s.cluster, v.voter
    union all
    select cluster, replica, concat(min(directory), ': cluster ', cluster) from log_replicas
    where directory_id is not null group by cluster, replica
),
clusters as (
    select cluster, count(*) as directories from log_replicas where node is not null group by cluster
)
select r.cluster, r.replica as subject, concat(r.directory, ', meta.properties: cluster ', r.cluster) as fact_a,
    min(k.fact) as fact_b
from log_replicas r
join known k on k.replica = r.replica and k.cluster <> r.cluster
join clusters c on c.cluster = r.cluster
join clusters o on o.cluster = k.cluster
where r.directory_id is not null and c.directories <= o.directories
group by r.cluster, r.replica, r.directory, k.cluster
