-- invariant: 1
-- title: each epoch has at most one leader, and all nodes agree on it
-- reads: events
-- observes: events where leader is not null
-- severity: error
-- a row: two nodes are named as leader of one epoch, or two replicas lead it.
with named as (
    select run, epoch, cast(leader as string) as who, at, concat(place, ': node ', node, ' names ', leader, ' as the leader') as fact
    from events where leader is not null
    union all
    select run, epoch, replica, at, concat(place, ': ', replica, ' leads it')
    from events where kind = 'role' and role = 'Leader'
),
firsts as (
    select run, epoch, who rlike '-' as is_replica, who, min_by(fact, at) as fact, min(at) as at
    from named group by all
)
select a.run as cluster, concat('epoch ', a.epoch) as subject, a.fact as fact_a, b.fact as fact_b
from firsts a join firsts b
    on a.run = b.run and a.epoch = b.epoch and a.is_replica = b.is_replica and a.who <> b.who and a.at < b.at
