-- invariant: 2
-- title: quorum-state is at least as new as the log beside it
-- reads: log_states, log_spans
-- observes: log_states where leader_epoch is not null
-- severity: error
-- a row: a log has records of a later epoch than its replica has stored, or its replica has stored none: there is no
-- quorum-state beside it. A node stores an epoch before it acts in it.
-- In a copy of a running node, a later epoch means that quorum-state was copied first.
select l.cluster, l.replica as subject,
    if(s.place is null, concat(l.directory, ': there is no quorum-state'),
        concat(s.place, ': the epoch of ', s.replica, ' is ', s.leader_epoch)) as fact_a,
    concat(l.last_place, ': its log ends with a record of epoch ', l.last_epoch) as fact_b
from log_spans l left join log_states s on s.cluster = l.cluster and s.directory = l.directory
where l.last_epoch is not null and (s.place is null or s.leader_epoch < l.last_epoch)
