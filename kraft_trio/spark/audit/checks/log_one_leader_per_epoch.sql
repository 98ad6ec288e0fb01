-- invariant: 1
-- title: logs and stored states agree on one leader per epoch
-- reads: log_control, log_states
-- observes: log_control where type = 'LeaderChange'
-- severity: error
-- a row: two leaders are named for one epoch.
with named as (
    select cluster, epoch, leader_id, min(place) as place from (
        select cluster, epoch, leader_id, place from log_control where type = 'LeaderChange'
        union all
        select cluster, leader_epoch, leader_id, place from log_states where leader_id >= 0
    ) group by cluster, epoch, leader_id
)
select a.cluster, concat('epoch ', a.epoch) as subject,
    concat(a.place, ': node ', a.leader_id, ' leads epoch ', a.epoch) as fact_a,
    concat(b.place, ': node ', b.leader_id, ' leads it') as fact_b
from named a join named b on a.cluster = b.cluster and a.epoch = b.epoch and a.leader_id < b.leader_id
