-- invariant: 21
-- title: what one producer has appended is in a log once
-- reads: log_batches
-- observes: log_batches where producer_id >= 0
-- severity: error
-- a row: a log has two batches of one producer with the same sequence: a retry that took effect twice.
select cluster, concat(max(replica), ', producer ', producer_id) as subject,
    concat(min_by(place, base_offset), ': producer ', producer_id, ' in its epoch ', producer_epoch, ', sequence ',
        base_sequence, ', at offset ', min(base_offset)) as fact_a,
    concat(max_by(place, base_offset), ': the same at offset ', max(base_offset)) as fact_b
from log_batches where producer_id >= 0 and base_sequence >= 0 and error is null
group by cluster, directory, producer_id, producer_epoch, base_sequence
having min(base_offset) < max(base_offset)
