-- reads: logged_voters, events
-- One row per voter set in a node's log, with the set before it in that log: `old`, at `old_offset`.
-- Before the first one, `old` is what the node published last (only ids, and `old_offset` is null), or nothing if
-- events are missing since.
-- `target`, `old_target`: those of a reassignment; empty without one.
-- `changed`: the replica keys that only one of the two sets has.
with before as (
    select v.*, max_by(struct(o.offset, o.voters, o.target, o.place), o.offset) as previous
    from logged_voters v
    left join logged_voters o
        on o.run = v.run and o.node = v.node and o.since <= v.since and o.offset < v.offset
        and (o.until is null or o.until > v.since)
    group by all
),
published as (
    select b.run, b.node, b.since, b.offset, max_by(if(e.kind in ('role', 'voters'), e.voters, null), e.at) as ids
    from before b
    join events e on e.run = b.run and e.node = b.node and e.at < b.since
        and (e.is_gap or e.kind in ('role', 'voters'))
    where b.previous is null
    group by all
),
paired as (
    select b.*, b.previous.offset as old_offset, b.previous.place as old_place, b.previous.target as old_target,
        coalesce(b.previous.voters, transform(p.ids, id -> cast(id as string))) as old
    from before b
    left join published p on p.run = b.run and p.node = b.node and p.since = b.since and p.offset = b.offset
)
select
    run, node, replica, place, since, until, epoch, role, all_seen, record_epoch, committed_end, high_watermark, offset,
    voters, target, old, old_offset, old_place, old_target, changed_keys(old, voters) as changed
from paired
