-- invariant: 16
-- title: only members of the newest voter set campaign, or of the one before while that is not known to be committed
-- reads: voters_at_work
-- observes: voters_at_work where kind = 'role'
-- severity: error
-- a row: a node asks for votes, or leads, that is in neither set.
select run as cluster, replica as subject,
    concat(place, ': the newest voters in the log of ', replica, ' are {', array_join(newest, ', '), '}') as fact_a,
    concat(place, ': it becomes ', role, ' in epoch ', epoch) as fact_b
from voters_at_work
where kind = 'role' and not was <=> role
    and not arrays_overlap(newest, array(replica, cast(node as string)))
    and not coalesce(
        not coalesce(high_watermark > voters_offset, false)
        and (older is null and voters_offset is not null
            or arrays_overlap(older, array(replica, cast(node as string)))),
        false)
