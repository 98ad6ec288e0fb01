-- reads: log_replicas, log_states
-- One row per directory: the end of its newest whole snapshot, and the epoch in its quorum-state.
select r.cluster, r.directory, r.replica, r.snapshot_end, s.leader_epoch
from log_replicas r left join log_states s on s.cluster = r.cluster and s.directory = r.directory
where r.error is null
