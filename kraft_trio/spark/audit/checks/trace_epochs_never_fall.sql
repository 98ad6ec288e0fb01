-- invariant: 2
-- title: a node's epoch never falls, even across restarts
-- reads: events
-- observes: events where kind = 'role'
-- severity: error
-- a row: a replica is in a lower epoch than before.
with epochs as (
    select *, max(struct(epoch, place)) over (
        partition by run, replica order by at rows between unbounded preceding and 1 preceding
    ) as highest
    from events where kind = 'role'
)
select run as cluster, replica as subject,
    concat(highest.place, ': ', replica, ' is in epoch ', highest.epoch) as fact_a,
    concat(place, ': it is ', role, ' in epoch ', epoch) as fact_b
from epochs where epoch < highest.epoch
