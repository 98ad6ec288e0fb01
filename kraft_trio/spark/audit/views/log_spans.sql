-- reads: log_batches
-- One row a directory: from where to where (exclusive) its log goes, and where the last batch stands that is whole.
select cluster, directory, max(replica) as replica, min(base_offset) as log_start, max(last_offset) + 1 as log_end,
    max_by(epoch, order) filter (where error is null) as last_epoch, max(order) filter (where error is null) as last_whole,
    max_by(place, order) filter (where error is null) as last_place, count(*) as batches, sum(size) as bytes
from log_batches group by cluster, directory
