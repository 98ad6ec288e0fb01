-- invariant: 12
-- title: a log has at most one uncommitted voter set
-- reads: voter_changes
-- observes: voter_changes where all_seen
-- severity: error
-- a row: a voter set was appended to a log while another one in it was uncommitted.
select run as cluster, concat('offset ', offset) as subject,
    concat(old_place, ': the log of ', replica, ' has the voters {', array_join(old, ', '), '} at offset ', old_offset)
        as fact_a,
    concat(place, ': it appends {', array_join(voters, ', '), '} at offset ', offset,
        ', and leaders have committed up to ', coalesce(committed_end, 0)) as fact_b
from voter_changes where all_seen and old_offset >= coalesce(committed_end, 0)
