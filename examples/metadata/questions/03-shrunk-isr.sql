-- Who changed the ISR of orders-7, and when?
-- This is the controller that wrote it. The next question shows why.
SELECT timestamp, controller, before->>'$.isr' AS before, after->>'$.isr' AS after
FROM changes WHERE key = 'orders-7' AND list_contains(changed, 'isr')
ORDER BY "offset"
