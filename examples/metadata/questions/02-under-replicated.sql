-- Which are under-replicated, and who is missing?
SELECT topic, list_filter(replicas, lambda id: NOT list_contains(isr, id)) AS missing,
       list(partition_id ORDER BY partition_id) AS partitions
FROM partitions WHERE len(isr) < len(replicas) GROUP BY ALL ORDER BY topic
