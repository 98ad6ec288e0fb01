-- invariant: 22
-- title: a leader has the votes of a majority of the voters
-- reads: log_control
-- observes: log_control where type = 'LeaderChange'
-- severity: error
-- a row: a LeaderChange names too few voters that granted their vote for a majority of the voters it names.
select cluster, concat('epoch ', epoch) as subject,
    concat(min(place), ': node ', leader_id, ' leads epoch ', epoch, ', the voters are ', array_join(voter_ids, ', '))
        as fact_a,
    concat('those who voted for it are {', array_join(granting_voters, ', '), '}') as fact_b
from log_control
where type = 'LeaderChange' and size(voter_ids) > 0
    and 2 * size(array_intersect(voter_ids, granting_voters)) <= size(voter_ids)
group by cluster, epoch, leader_id, voter_ids, granting_voters
