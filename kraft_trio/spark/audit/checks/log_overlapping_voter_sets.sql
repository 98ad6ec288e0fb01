-- invariant: 13
-- title: consecutive voter sets differ by at most one replica key
-- reads: log_voter_sets
-- observes: log_voter_sets where before is not null
-- severity: error
-- a row: a voter set differs from the one before it in more than one id and directory id.
select cluster, concat('offset ', offset) as subject,
    concat(min_by(before.place, place), ': the voters are {', array_join(before.voters, ', '), '}') as fact_a,
    concat(min(place), ': they are {', array_join(voters, ', '), '}') as fact_b
from log_voter_sets
where not of_snapshot and size(changed_keys(before.voters, voters)) > 1
group by cluster, offset, voters, before.voters
