-- invariant: 5
-- title: at one offset and epoch all logs have the same batch
-- reads: log_batches
-- observes: log_batches where error is null
-- severity: error
-- a row: two replicas have different batches at one offset in one epoch.
-- Where a log begins later or ends earlier it lags or was trimmed, and nothing is compared.
with different as (
    select cluster, base_offset, epoch
    from log_batches where error is null
    group by cluster, base_offset, epoch
    having min(last_offset) <> max(last_offset) or min(size) <> max(size) or min(content_crc) <> max(content_crc)
),
held as (
    select b.cluster, b.base_offset, b.epoch, b.size, b.content_crc, min(b.place) as place
    from log_batches b join different d
        on d.cluster = b.cluster and d.base_offset = b.base_offset and d.epoch = b.epoch
    where b.error is null group by all
)
select a.cluster, concat('offset ', a.base_offset, ', epoch ', a.epoch) as subject,
    concat(a.place, ': the batch at offset ', a.base_offset, ' of epoch ', a.epoch, ' has ', a.size,
        ' bytes, CRC ', lower(hex(a.content_crc))) as fact_a,
    concat(b.place, ': it has ', b.size, ' bytes, CRC ', lower(hex(b.content_crc))) as fact_b
from held a join held b
    on a.cluster = b.cluster and a.base_offset = b.base_offset and a.epoch = b.epoch and a.place < b.place
