-- Which controller was active in each epoch, and how much did it change?
-- An epoch without a leader has no row: a candidate that loses uses one up, too.
SELECT epoch, controller, min(timestamp) AS first, max(timestamp) AS last, count(*) AS changes
FROM changes WHERE operation <> 'snapshot' GROUP BY ALL ORDER BY epoch
