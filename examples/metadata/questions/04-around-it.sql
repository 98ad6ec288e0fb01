-- What else happened within ten seconds of the first time?
-- Broker 12 was fenced by the same controller at the same time.
WITH shrunk AS (
    SELECT min(timestamp) AS moment FROM changes WHERE key = 'orders-7' AND list_contains(changed, 'isr')
)
SELECT timestamp, entity, operation, count(*) AS things, list(key ORDER BY key)[:3] AS some
FROM changes, shrunk
WHERE timestamp BETWEEN moment - INTERVAL 10 SECONDS AND moment + INTERVAL 10 SECONDS
GROUP BY ALL ORDER BY timestamp, min("offset"), entity
