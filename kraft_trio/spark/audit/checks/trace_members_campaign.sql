-- invariant: 16
-- title: only members campaign: of their newest voter set, or of the last one known to be committed
-- reads: voters_at_work
-- observes: voters_at_work where kind = 'role'
-- severity: error
-- a row: a node outside both sets asks for votes or leads. If the trace shows none of the voter sets in the node's
-- log and not the log's beginning, the node may be in the set before, and there is no violation. A node with an
-- unknown directory id is identified by its id.
with campaigns as (
    select *,
        exists(newest, v -> v = replica or v = string(node) or split_part(v, '-', 1) = replica) as is_in_newest,
        exists(older, v -> v = replica or v = string(node) or split_part(v, '-', 1) = replica) as is_in_older,
        coalesce(high_watermark > voters_offset, false) as is_committed
    from voters_at_work where kind = 'role' and not was <=> role
)
select run as cluster, replica as subject,
    concat(place, ': the newest voters in the log of ', replica, ' are {', array_join(newest, ', '), '}') as fact_a,
    concat(place, ': it becomes ', role, ' in epoch ', epoch) as fact_b
from campaigns
where (voters_offset is not null or log_known) and not is_in_newest
    and not (not is_committed and coalesce(is_in_older, voters_offset is not null))
