-- invariant: 15
-- title: a snapshot has the target of the reassignment at its end
-- reads: log_voter_sets
-- observes: log_voter_sets where of_snapshot
-- severity: warning
-- a row: a snapshot has another target than the last voter set of the log before its end, if the log reaches that far.
-- Kafka writes snapshots without the target.
select cluster, concat(replica, ', offset ', offset + 1) as subject,
    concat(before.place, ': the last target below offset ', offset + 1, ' is {', array_join(before.target, ', '), '}')
        as fact_a,
    concat(place, ': it has the target {', array_join(target, ', '), '}') as fact_b
from log_voter_sets
where of_snapshot and before.offset >= 0 and before.target <> target
