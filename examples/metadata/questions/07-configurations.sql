-- Who changed a configuration, from what to what?
-- A configuration of BROKER without a name holds for all brokers. That of carts went with the topic.
SELECT timestamp, controller, key, before->>'$.value' AS before, after->>'$.value' AS after
FROM changes WHERE entity = 'configs' AND operation <> 'snapshot'
ORDER BY "offset"
