-- title: during a reassignment, voters change only towards the target
-- reads: voter_changes
-- observes: voter_changes where size(old) > 0
-- severity: error
-- a row: a voter set with a target adds a replica that is not in the target, or removes one that is, or comes with
-- another target.
select run as cluster, concat('offset ', offset) as subject,
    concat(old_place, ': the voters {', array_join(old, ', '), '} in the log of ', replica, ' are to become {',
        array_join(old_target, ', '), '}') as fact_a,
    concat(place, ': the batch at offset ', offset, ' makes them {', array_join(voters, ', '), '}, to become {',
        array_join(target, ', '), '}') as fact_b
from voter_changes
where size(old_target) > 0 and size(target) > 0 and size(changed) > 0
    and (target <> old_target
        or size(array_except(array_except(voters, old), target)) > 0
        or size(array_intersect(array_except(old, voters), target)) > 0)
