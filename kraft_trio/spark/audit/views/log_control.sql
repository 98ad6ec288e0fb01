-- reads: control
-- stored: no
-- The control records of all replicas, including those whose time no column can hold.
select
    coalesce(cluster_id, 'unknown') as cluster, directory, node, directory_id,
    coalesce(concat_ws('-', node, directory_id), directory) as replica, offset, epoch, timestamp, type, leader_id,
    voter_ids, granting_voters, transform(voters, v -> concat_ws('-', v.id, v.directory_id)) as voters,
    transform(target, v -> concat_ws('-', v.id, v.directory_id)) as target, kraft_version,
    concat(directory, ', ', lpad(string(segment), 20, '0'), '.log, position ', position, ', offset ', offset) as place
from control where error is null or error rlike '^timestamp is '
