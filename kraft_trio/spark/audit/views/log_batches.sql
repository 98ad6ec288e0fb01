-- reads: batches
-- stored: no
-- The batches of all replicas. `place` describes a batch's position for people, and `order` sorts the batches of one
-- directory.
-- A time that no column can hold, which a producer may have sent, is not damage: the batch is compared like any
-- other.
select
    coalesce(cluster_id, 'unknown') as cluster, directory, node, directory_id,
    coalesce(concat_ws('-', node, directory_id), directory) as replica, segment, position, size, base_offset,
    last_offset, epoch, control, producer_id, producer_epoch, base_sequence, content_crc, crc_ok,
    if(crc_ok and error rlike '^(base|max) timestamp is ', null, error) as error,
    concat(directory, ', ', lpad(string(segment), 20, '0'), '.log, position ', position) as place,
    struct(segment, position) as order
from batches
