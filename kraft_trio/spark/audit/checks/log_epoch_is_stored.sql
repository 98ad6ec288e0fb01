-- invariant: 2
-- title: quorum-state is at least as new as the log beside it
-- reads: log_states, log_spans
-- observes: log_states where leader_epoch is not null
-- severity: error
-- a row: a log has records of a later epoch than its replica has stored. A node stores an epoch before it acts in it.
-- In a copy of a running node, this means that quorum-state was copied first.
select s.cluster, s.replica as subject, concat(s.place, ': the epoch of ', s.replica, ' is ', s.leader_epoch) as fact_a,
    concat(l.last_place, ': its log ends with a record of epoch ', l.last_epoch) as fact_b
from log_states s join log_spans l on l.cluster = s.cluster and l.directory = s.directory
where s.leader_epoch < l.last_epoch
