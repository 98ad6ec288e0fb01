-- reads: log_control, log_snapshots
-- One row a voter set in a log, or at the end of a snapshot beside it, with the one before it in that directory.
with sets as (
    select cluster, directory, replica, offset, voters, place, false as of_snapshot from log_control where type = 'Voters'
    union all
    select cluster, directory, replica, end_offset - 1, voters, place, true from log_snapshots
    where valid and size(voters) > 0
)
select *, lag(struct(offset, voters, place)) over (
        partition by cluster, directory order by offset, of_snapshot
    ) as before
from sets
