-- reads: snapshots
-- stored: no
-- The readable checkpoint files of all replicas, including the bootstrap checkpoint at offset 0.
select
    coalesce(cluster_id, 'unknown') as cluster, directory,
    coalesce(concat_ws('-', node, directory_id), directory) as replica, end_offset, epoch, size, sha256,
    content_sha256, record_count, transform(voters, v -> concat_ws('-', v.id, v.directory_id)) as voters,
    transform(target, v -> concat_ws('-', v.id, v.directory_id)) as target, kraft_version, valid, error,
    concat(directory, ', ', lpad(string(end_offset), 20, '0'), '-', lpad(string(epoch), 10, '0'), '.checkpoint') as place
from snapshots where size is not null
