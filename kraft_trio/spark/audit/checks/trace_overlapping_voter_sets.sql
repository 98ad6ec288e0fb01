-- invariant: 13
-- title: consecutive voter sets differ by at most one replica key
-- reads: voter_changes
-- observes: voter_changes where size(old) > 0
-- severity: error
-- a row: a voter set differs from the one before it in more than one id and directory id.
select run as cluster, concat('offset ', offset) as subject,
    concat(coalesce(old_place, place), ': the voters of ', replica, ' are {', array_join(old, ', '), '}') as fact_a,
    concat(place, ': the batch at offset ', offset, ' makes them {', array_join(voters, ', '), '}') as fact_b
from voter_changes where size(old) > 0 and size(changed) > 1
