-- title: during a reassignment, voters change only towards the target
-- reads: log_voter_sets
-- observes: log_voter_sets where before is not null
-- severity: error
-- a row: a voter set with a target adds a replica that is not in the target, or removes one that is, or comes with
-- another target. A set without a target may be the work of a leader of Kafka, or of `kraft storage recover`.
select cluster, concat('offset ', offset) as subject,
    concat(min_by(before.place, place), ': the voters {', array_join(before.voters, ', '), '} are to become {',
        array_join(before.target, ', '), '}') as fact_a,
    concat(min(place), ': they are {', array_join(voters, ', '), '}, to become {', array_join(target, ', '), '}') as fact_b
from log_voter_sets
where not of_snapshot and size(before.target) > 0 and size(target) > 0
    and size(changed_keys(before.voters, voters)) > 0
    and (target <> before.target
        or size(array_except(array_except(voters, before.voters), target)) > 0
        or size(array_intersect(array_except(before.voters, voters), target)) > 0)
group by cluster, offset, voters, target, before.voters, before.target
