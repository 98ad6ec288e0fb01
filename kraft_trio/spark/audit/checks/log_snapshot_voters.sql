-- invariant: 15
-- title: a snapshot has the voters in force at its end
-- reads: log_voter_sets
-- observes: log_voter_sets where of_snapshot
-- severity: error
-- a row: a snapshot has other voters than the last voter set of the log before its end, if the log reaches that far.
select cluster, concat(replica, ', offset ', offset + 1) as subject,
    concat(before.place, ': the last voters below offset ', offset + 1, ' are {', array_join(before.voters, ', '), '}')
        as fact_a,
    concat(place, ': it has the voters {', array_join(voters, ', '), '}') as fact_b
from log_voter_sets
where of_snapshot and before.offset >= 0 and size(array_except(before.voters, voters)) + size(array_except(voters, before.voters)) > 0
