-- reads: quorum_state
-- stored: no
-- The quorum-state of all replicas.
select
    coalesce(cluster_id, 'unknown') as cluster, directory,
    coalesce(concat_ws('-', node, directory_id), directory) as replica, node, leader_id, leader_epoch, voted_id,
    voted_directory_id, concat_ws('-', voted_id, voted_directory_id) as voted, crc_ok, error,
    concat(directory, ', quorum-state') as place
from quorum_state
