-- When was each broker fenced, and when was it back?
-- Each one registers as fenced: the first three rows are their starts.
SELECT timestamp, key AS broker, after->>'$.fenced' AS fenced
FROM changes WHERE entity = 'brokers' AND list_contains(changed, 'fenced')
ORDER BY "offset"
