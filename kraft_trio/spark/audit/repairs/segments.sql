-- reads: log_batches
-- One row per segment with bytes: its offsets from `first` to `end` (exclusive), whether these are without gaps and
-- intact, and a hash of its batches. `unreadable` counts the places that are no batch.
select cluster, directory, segment, min(base_offset) as first, max(last_offset) + 1 as end, max(epoch) as epoch,
    coalesce(min(base_offset) = segment and sum(last_offset - base_offset + 1) = max(last_offset) + 1 - min(base_offset), false)
        as is_complete,
    count_if(error is not null) = 0 as is_intact, count_if(base_offset is null) as unreadable,
    bit_xor(xxhash64(base_offset, last_offset, size, content_crc)) as content
from log_batches where position is not null and size > 0 group by cluster, directory, segment
