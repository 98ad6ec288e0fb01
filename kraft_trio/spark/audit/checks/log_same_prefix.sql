-- invariant: 5
-- title: logs that share an offset and epoch have the same epochs before it
-- reads: log_batches, log_epoch_starts
-- observes: log_epoch_starts
-- severity: error
-- a row: two logs have different epochs at one offset, and later the same epoch at the same offset again. A differing
-- uncommitted end is no violation: its leader may have been replaced before the replica truncated it.
with ends as (
    select cluster, directory, epoch, max(last_offset) as last_offset
    from log_batches where error is null group by cluster, directory, epoch
),
spans as (
    select s.cluster, s.directory, s.epoch, s.start_offset, e.last_offset, s.place
    from log_epoch_starts s join ends e
        on e.cluster = s.cluster and e.directory = s.directory and e.epoch = s.epoch
),
apart as (
    select a.cluster, a.directory, b.directory as other, min(struct(
        greatest(a.start_offset, b.start_offset) as offset, a.epoch, b.epoch as other_epoch, a.place
    )) as first
    from spans a join spans b
        on a.cluster = b.cluster and a.directory < b.directory and a.epoch <> b.epoch
        and a.start_offset <= b.last_offset and b.start_offset <= a.last_offset
    group by a.cluster, a.directory, b.directory
),
together as (
    select a.cluster, a.directory, b.directory as other, max(struct(
        least(a.last_offset, b.last_offset) as offset, a.epoch, b.place
    )) as last
    from spans a join spans b
        on a.cluster = b.cluster and a.directory < b.directory and a.epoch = b.epoch
        and a.start_offset <= b.last_offset and b.start_offset <= a.last_offset
    group by a.cluster, a.directory, b.directory
)
select x.cluster, concat('offset ', x.first.offset) as subject,
    concat(x.first.place, ': offset ', x.first.offset, ' is of epoch ', x.first.epoch, ' in ', x.directory,
        ', of epoch ', x.first.other_epoch, ' in ', x.other) as fact_a,
    concat(t.last.place, ': further on, offset ', t.last.offset, ' is of epoch ', t.last.epoch, ' in both') as fact_b
from apart x join together t on t.cluster = x.cluster and t.directory = x.directory and t.other = x.other
where t.last.offset > x.first.offset
