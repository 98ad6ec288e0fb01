-- How are leaders spread over brokers?
-- The leader -1 stands for none.
SELECT leader, count(*) AS partitions FROM partitions GROUP BY leader ORDER BY leader
