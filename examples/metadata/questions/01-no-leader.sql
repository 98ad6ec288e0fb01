-- Which partitions have no leader?
SELECT topic, partition_id, isr, replicas FROM partitions WHERE leader = -1
ORDER BY topic, partition_id
