-- reads: events, logged_voters
-- One row per election, vote round or commit, with the newest voter set in the log of the node that counts.
-- If the trace has no set, `voters` are the ids that the node published. `older` is the set before, if there is one.
with working as (
    select * from events
    where (kind = 'role' and role in ('Prospective', 'Candidate', 'Leader'))
        or (kind = 'high_watermark' and role = 'Leader')
),
logged as (
    select w.run, w.at,
        sort_array(collect_list(struct(v.offset, v.voters)), false) as sets
    from working w
    join logged_voters v
        on v.run = w.run and v.node = w.node and v.since <= w.at and (v.until is null or v.until > w.at)
    group by all
)
select w.*, l.sets[0].offset as voters_offset,
    coalesce(l.sets[0].voters, transform(w.voters, id -> cast(id as string))) as newest,
    get(l.sets, 1).voters as older
from working w left join logged l on l.run = w.run and l.at = w.at
