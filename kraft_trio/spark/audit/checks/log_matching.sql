-- invariant: 5
-- title: all logs have the same batch at the same offset and epoch
-- reads: log_batches
-- observes: log_batches where error is null
-- severity: error
-- a row: two replicas have different batches at one offset in one epoch; the first batch is the one that most replicas
-- have. Parts that only one log has, because the other lags or was trimmed, are not compared.
with spans as (
    -- Ranges of offsets are compared as a whole. Only those that differ, such as the ends of logs, are compared by batch.
    select cluster, directory, epoch, base_offset div 4096 as span, count(*) as batches,
        bit_xor(xxhash64(base_offset, last_offset, size, content_crc)) as hash
    from log_batches where error is null group by 1, 2, 3, 4
),
suspects as (
    select cluster, epoch, span from spans group by cluster, epoch, span
    having min(hash) <> max(hash) or min(batches) <> max(batches)
),
suspected as (
    select b.cluster, b.base_offset, b.last_offset, b.epoch, b.size, b.content_crc, b.place
    from log_batches b
    left semi join suspects s on s.cluster = b.cluster and s.epoch = b.epoch and s.span = b.base_offset div 4096
    where b.error is null
),
different as (
    select cluster, base_offset, epoch from suspected group by cluster, base_offset, epoch
    having min(last_offset) <> max(last_offset) or min(size) <> max(size) or min(content_crc) <> max(content_crc)
),
held as (
    select /*+ merge(d) */ b.cluster, b.base_offset, b.epoch, b.size, b.content_crc, min(b.place) as place,
        count(*) as copies
    from suspected b join different d
        on d.cluster = b.cluster and d.base_offset = b.base_offset and d.epoch = b.epoch
    group by b.cluster, b.base_offset, b.epoch, b.size, b.content_crc
),
ranked as (
    select *, row_number() over (partition by cluster, base_offset, epoch order by copies desc, place) as rank from held
)
select a.cluster, concat('offset ', a.base_offset, ', epoch ', a.epoch) as subject,
    concat(a.place, ': the batch at offset ', a.base_offset, ' of epoch ', a.epoch, ' has ', a.size,
        ' bytes, CRC ', lower(hex(a.content_crc))) as fact_a,
    concat(b.place, ': it has ', b.size, ' bytes, CRC ', lower(hex(b.content_crc))) as fact_b
from ranked a join ranked b on a.cluster = b.cluster and a.base_offset = b.base_offset and a.epoch = b.epoch
where a.rank = 1 and b.rank > 1
