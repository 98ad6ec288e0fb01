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
leading as (
    -- All logs that have an epoch are compared with the one of them that goes back furthest: where two logs differ, it
    -- differs from one of them.
    select s.cluster, s.epoch, min_by(s.directory, struct(l.log_start, -s.last_offset as later, s.directory)) as directory
    from spans s join (
        select cluster, directory, min(start_offset) as log_start from spans group by cluster, directory
    ) l on l.cluster = s.cluster and l.directory = s.directory
    group by s.cluster, s.epoch
),
pairs as (
    select distinct s.cluster, l.directory, s.directory as other
    from spans s join leading l on l.cluster = s.cluster and l.epoch = s.epoch and l.directory <> s.directory
),
apart as (
    select p.cluster, p.directory, p.other, min(struct(
        greatest(a.start_offset, b.start_offset) as offset, a.epoch, b.epoch as other_epoch, a.place
    )) as first
    from pairs p
    join spans a on a.cluster = p.cluster and a.directory = p.directory
    join spans b on b.cluster = p.cluster and b.directory = p.other and a.epoch <> b.epoch
        and a.start_offset <= b.last_offset and b.start_offset <= a.last_offset
    group by p.cluster, p.directory, p.other
),
together as (
    select p.cluster, p.directory, p.other, max(struct(
        least(a.last_offset, b.last_offset) as offset, a.epoch, b.place
    )) as last
    from pairs p
    join spans a on a.cluster = p.cluster and a.directory = p.directory
    join spans b on b.cluster = p.cluster and b.directory = p.other and a.epoch = b.epoch
        and a.start_offset <= b.last_offset and b.start_offset <= a.last_offset
    group by p.cluster, p.directory, p.other
)
select x.cluster, concat('offset ', x.first.offset) as subject,
    concat(x.first.place, ': offset ', x.first.offset, ' is of epoch ', x.first.epoch, ' in ', x.directory,
        ', of epoch ', x.first.other_epoch, ' in ', x.other) as fact_a,
    concat(t.last.place, ': further on, offset ', t.last.offset, ' is of epoch ', t.last.epoch, ' in both') as fact_b
from apart x join together t on t.cluster = x.cluster and t.directory = x.directory and t.other = x.other
where t.last.offset > x.first.offset
