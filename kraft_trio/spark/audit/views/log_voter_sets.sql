-- reads: log_control, log_snapshots, log_spans, log_epoch_starts, log_holes
-- One row per voter set in a log, or at the end of a snapshot beside it, with the set before it in that directory.
-- `before` is null if the log does not show everything between the two. It may begin later or be damaged there.
-- Before a snapshot, it may also end earlier or continue in another epoch, if the snapshot is to replace it.
with sets as (
    select cluster, directory, replica, offset, epoch, voters, target, place, false as of_snapshot from log_control
    where type = 'Voters'
    union all
    select cluster, directory, replica, end_offset - 1, epoch, voters, target, place, true from log_snapshots
    where valid and size(voters) > 0
),
ordered as (
    select *, lag(struct(offset, voters, target, place)) over (
            partition by cluster, directory order by offset, of_snapshot
        ) as previous
    from sets
),
logged as (
    select o.cluster, o.directory, o.offset, max(e.epoch) as epoch
    from (select distinct cluster, directory, offset from ordered) o
    join log_epoch_starts e
        on e.cluster = o.cluster and e.directory = o.directory and e.start_offset <= o.offset
    group by all
),
hidden as (
    select distinct o.cluster, o.directory, o.offset
    from ordered o join log_holes h on h.cluster = o.cluster and h.directory = o.directory
    where h.end > o.previous.offset + 1 and h.first <= o.offset
)
select o.cluster, o.directory, o.replica, o.offset, o.voters, o.target, o.place, o.of_snapshot,
    if(o.previous.offset + 1 >= s.log_start and s.log_end > o.offset and l.epoch = o.epoch and h.offset is null,
        o.previous, null) as before
from ordered o
left join log_spans s on s.cluster = o.cluster and s.directory = o.directory
left join logged l on l.cluster = o.cluster and l.directory = o.directory and l.offset = o.offset
left join hidden h on h.cluster = o.cluster and h.directory = o.directory and h.offset = o.offset
