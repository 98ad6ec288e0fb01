-- reads: events
-- One row per voter set in a node's log, present from `since` (inclusive) to `until` (exclusive; null for the end).
-- A truncation, a crash and a snapshot that replaces the log remove it. Where events are missing, the contents of the
-- log are unknown.
with appended as (
    select run, node, replica, file, sequence, place, at as since, epoch, role, all_seen, record_epoch, committed_end,
        high_watermark, set.voters_offsets as offset, split(set.voter_keys, ' ') as voters,
        coalesce(split(nullif(set.targets, ''), ' '), array()) as target
    from events lateral view explode(arrays_zip(voters_offsets, voter_keys, targets)) as set
    where kind = 'append' and size(voters_offsets) > 0
)
select a.run, a.node, a.replica, a.place, a.since, min(x.at) as until, a.epoch, a.role, a.all_seen, a.record_epoch,
    a.committed_end, a.high_watermark, a.offset, a.voters, a.target
from appended a
left join events x
    on x.run = a.run and x.node = a.node and x.at > a.since
    and (x.is_gap or x.kind = 'replace' or (x.kind in ('start', 'truncate') and x.log_end <= a.offset))
group by all
