-- invariant: 13
-- title: the nodes of a cluster were formatted with the same voters
-- reads: log_snapshots
-- observes: log_snapshots where end_offset = 0 and valid and size(voters) > 0
-- severity: warning
-- a row: bootstrap checkpoints name different voters. Until the log names others, such nodes refuse each other their
-- votes. Nodes that were formatted to join have none.
with formatted as (
    select cluster, array_join(array_sort(voters), ', ') as voters, min(place) as place from log_snapshots
    where end_offset = 0 and valid and size(voters) > 0
    group by cluster, array_join(array_sort(voters), ', ')
)
select cluster, 'the bootstrap checkpoint' as subject,
    concat(min_by(place, voters), ': the voters are {', min(voters), '}') as fact_a,
    concat(max_by(place, voters), ': they are {', max(voters), '}') as fact_b
from formatted
group by cluster having count(*) > 1
