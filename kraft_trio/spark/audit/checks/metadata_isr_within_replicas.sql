-- title: the ISR of a partition has none but its replicas
-- reads: metadata_partitions
-- observes: metadata_partitions where leader is not null
-- severity: error
-- a row: a record leaves a partition with a broker in the ISR that has no replica. A reassignment that ends changes both
-- in one record. What several replicas have is told once.
select cluster, subject, min(fact_a) as fact_a, min(fact_b) as fact_b from (
    select cluster, concat('partition ', key, ', offset ', at) as subject,
        concat(place, ': the ISR of ', key, ' is {', array_join(isr, ', '), '}') as fact_a,
        concat('its replicas are {', array_join(replicas, ', '), '}') as fact_b
    from metadata_partitions where leader is not null and size(array_except(isr, replicas)) > 0
)
group by cluster, subject
