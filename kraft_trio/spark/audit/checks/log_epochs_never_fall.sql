-- invariant: 5
-- title: epochs never fall along a log
-- reads: log_breaks, log_batches
-- observes: log_batches where epoch is not null
-- severity: error
-- a row: a batch has a lower epoch than the one before it.
select cluster, concat(replica, ', offset ', base_offset) as subject,
    concat(before.place, ': the batch is of epoch ', before.epoch) as fact_a,
    concat(place, ': the next one is of epoch ', epoch) as fact_b
from log_breaks where epoch < before.epoch
