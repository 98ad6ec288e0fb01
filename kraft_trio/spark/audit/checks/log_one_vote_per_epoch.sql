-- invariant: 3
-- title: each replica votes at most once per epoch
-- reads: log_states, log_control
-- observes: log_states where leader_epoch is not null
-- severity: error
-- a row: the stored state of a replica contradicts another copy of it, or the leader that it voted for in that epoch.
select a.cluster, concat(a.replica, ', epoch ', a.leader_epoch) as subject,
    concat(a.place, ': ', a.replica, ' has voted for ', a.voted, ' in epoch ', a.leader_epoch) as fact_a,
    concat(b.place, ': it has voted for ', b.voted) as fact_b
from log_states a join log_states b
    on a.cluster = b.cluster and a.replica = b.replica and a.leader_epoch = b.leader_epoch and a.place < b.place
where a.voted <> b.voted and a.voted_id >= 0 and b.voted_id >= 0
union all
select s.cluster, concat(s.replica, ', epoch ', s.leader_epoch),
    concat(s.place, ': ', s.replica, ' has voted for ', s.voted, ' in epoch ', s.leader_epoch),
    concat(min(c.place), ': node ', c.leader_id, ' leads that epoch, by its vote too')
from log_states s join log_control c
    on c.cluster = s.cluster and c.type = 'LeaderChange' and c.epoch = s.leader_epoch
    and array_contains(c.granting_voters, s.node)
where s.voted_id >= 0 and s.voted_id <> c.leader_id
group by s.cluster, s.replica, s.leader_epoch, s.place, s.voted, c.leader_id
