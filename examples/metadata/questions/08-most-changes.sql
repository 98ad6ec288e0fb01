-- Which partitions change most?
SELECT key, count(*) AS changes FROM changes WHERE entity = 'partitions' AND operation = 'update'
GROUP BY key ORDER BY changes DESC, key LIMIT 5
