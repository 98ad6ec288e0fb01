-- reads: log_batches
-- One row per batch that does not continue where the batch before it ends, or has a lower epoch. Rows of size 0 are
-- not batches: they report that a segment does not continue the one before it.
-- Sorting whole logs takes long. So the query first looks for logs that have such a batch at all: in each segment and
-- epoch, every batch except the first must begin where another one ends, in the file and in offsets. If the hashes of
-- all beginnings and all ends are combined by exclusive or, everything in between cancels out.
with parts as (
    select cluster, directory, segment, epoch, min(base_offset) as first, max(last_offset) + 1 as end,
        bit_xor(xxhash64(position, base_offset)) ^ bit_xor(xxhash64(position + size, last_offset + 1)) as hash,
        xxhash64(min(position), min(base_offset)) ^ xxhash64(max(position + size), max(last_offset) + 1) as expected
    from log_batches where base_offset is not null group by cluster, directory, segment, epoch
),
ordered as (
    select *, lag(struct(end, epoch)) over (partition by cluster, directory order by segment, epoch) as before
    from parts
),
suspects as (
    select distinct cluster, directory from ordered
    where not hash <=> expected or first <> before.end or epoch < before.epoch
),
followed as (
    select b.cluster, b.directory, b.replica, b.place, b.order, b.base_offset, b.epoch,
        lag(struct(b.last_offset, b.epoch, b.place, b.order)) over (partition by b.cluster, b.directory order by b.order) as before
    from log_batches b left semi join suspects s on s.cluster = b.cluster and s.directory = b.directory
    where not b.size <=> 0
)
select * from followed
where base_offset is not null and before.last_offset is not null
    and (base_offset <> before.last_offset + 1 or epoch < before.epoch)
