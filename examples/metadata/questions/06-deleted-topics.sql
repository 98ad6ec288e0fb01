-- Which topics were deleted, and which exist again under the same name?
SELECT d.timestamp, d.key AS topic, t.topic_id AS exists_again_as
FROM changes d LEFT JOIN topics t ON t.name = d.key
WHERE d.entity = 'topics' AND d.operation = 'delete'
ORDER BY d."offset"
