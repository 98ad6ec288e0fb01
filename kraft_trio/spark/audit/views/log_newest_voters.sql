-- reads: log_control, log_snapshots
-- One row per voter of a cluster's newest voter set in any log or snapshot: `voter` is its id and directory id, or the
-- id alone. At kraft.version 0, the newest LeaderChange names the voters.
with sets as (
    select cluster, 1 as version, epoch, offset, voters, place from log_control where type = 'Voters'
    union all
    select cluster, 1, epoch, end_offset - 1, voters, place from log_snapshots where valid and size(voters) > 0
    union all
    select cluster, 0, epoch, offset, transform(voter_ids, id -> cast(id as string)), place from log_control
    where type = 'LeaderChange'
),
newest as (
    select cluster, max_by(struct(voters, place), struct(version, epoch, offset, place)) as newest from sets group by cluster
)
select n.cluster, n.newest.place, v.voter from newest n lateral view explode(n.newest.voters) v as voter
