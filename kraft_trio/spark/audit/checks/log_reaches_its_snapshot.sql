-- title: a log reaches the end of the newest snapshot beside it
-- reads: log_replicas
-- observes: log_replicas where snapshot_end is not null
-- severity: warning
-- a row: the log ends below the newest whole snapshot. Its end has been lost, or the node stopped after it had fetched
-- the snapshot and before it replaced the log. A node that starts continues from the snapshot.
select cluster, replica as subject,
    concat(directory, ': the newest snapshot ends at offset ', snapshot_end) as fact_a,
    concat(directory, ': the log ends at offset ', log_end) as fact_b
from log_replicas where log_end < snapshot_end
