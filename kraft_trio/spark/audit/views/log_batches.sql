-- reads: batches
-- stored: no
-- The batches of all replicas; `place` says for a human where one stands, `order` orders those of one directory.
select
    coalesce(cluster_id, 'unknown') as cluster, directory, node, directory_id,
    coalesce(concat_ws('-', node, directory_id), directory) as replica, segment, position, size, base_offset,
    last_offset, epoch, control, producer_id, producer_epoch, base_sequence, content_crc, crc_ok, error,
    concat(directory, ', ', lpad(segment, 20, '0'), '.log, position ', position) as place,
    struct(segment, position) as order
from batches
