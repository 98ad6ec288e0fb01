-- title: every directory and file is readable
-- reads: log_batches, snapshots, quorum_state
-- observes: log_batches
-- severity: error
-- a row: a directory or file that is unreadable, or does not belong to a replica.
select distinct cluster, directory as subject, concat('given is ', directory) as fact_a, error as fact_b
from (
    select cluster, directory, error from log_batches where error is not null and position is null
    union all
    select coalesce(cluster_id, 'unknown'), directory, error from snapshots where error is not null and size is null
    union all
    select coalesce(cluster_id, 'unknown'), directory, error from quorum_state where error is not null
)
