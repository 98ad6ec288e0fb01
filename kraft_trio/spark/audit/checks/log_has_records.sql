-- title: a replica of a cluster with records has some
-- reads: log_replicas, log_states, epochs
-- observes: log_replicas where error is null
-- severity: error
-- a row: a log is empty and no snapshot is whole, but other replicas have records, or the files beside the log tell of
-- some. A node that has just been formatted, and never reached the others, has a log like that.
with told as (
    select cluster, directory, concat(place, ': node ', leader_id, ' leads its epoch ', leader_epoch) as fact
    from log_states where leader_id >= 0
    union all
    select coalesce(cluster_id, 'unknown'), directory,
        concat(directory, ', leader-epoch-checkpoint: epoch ', epoch, ' begins at offset ', start_offset)
    from epochs where epoch is not null
),
facts as (
    select cluster, directory, min(fact) as fact from told group by cluster, directory
)
select r.cluster, r.replica as subject,
    concat(r.directory, ': neither a batch of its log nor a snapshot is whole') as fact_a,
    coalesce(concat(r.longest_directory, ': its log ends at offset ', r.longest), f.fact) as fact_b
from log_replicas r left join facts f on f.cluster = r.cluster and f.directory = r.directory
where r.error is null and r.end is null and (r.longest is not null or f.fact is not null)
