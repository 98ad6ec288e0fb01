-- invariant: 21
-- title: a log holds each batch of a producer once
-- reads: log_batches
-- observes: log_batches where producer_id >= 0
-- severity: error
-- a row: a log has two batches of one producer with the same sequence: a retry took effect twice. Sequences wrap
-- after 2147483647, so batches that many offsets apart are not retries.
with twice as (
    select cluster, directory, producer_id, producer_epoch, base_sequence, min(base_offset) as first,
        max(base_offset) as last
    from log_batches where producer_id >= 0 and base_sequence >= 0 and error is null
    group by cluster, directory, producer_id, producer_epoch, base_sequence
    having min(base_offset) < max(base_offset) and max(base_offset) - min(base_offset) < 2147483648 * (count(*) - 1)
)
select /*+ broadcast(t) */ t.cluster, concat(max(b.replica), ', producer ', t.producer_id) as subject,
    concat(min_by(b.place, b.base_offset), ': producer ', t.producer_id, ' in its epoch ', t.producer_epoch,
        ', sequence ', t.base_sequence, ', at offset ', t.first) as fact_a,
    concat(max_by(b.place, b.base_offset), ': the same at offset ', t.last) as fact_b
from twice t join log_batches b
    on b.cluster = t.cluster and b.directory = t.directory and b.base_offset in (t.first, t.last)
where b.error is null
group by t.cluster, t.directory, t.producer_id, t.producer_epoch, t.base_sequence, t.first, t.last
