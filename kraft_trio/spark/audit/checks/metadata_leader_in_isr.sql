-- title: the leader of a partition is in its ISR
-- reads: metadata_partitions
-- observes: metadata_partitions where leader >= 0
-- severity: error
-- a row: a record leaves a partition with a leader outside of the ISR. A controller adds the leader to the ISR also when
-- it elects one from outside, of the ELR or uncleanly. What several replicas have is told once.
select cluster, subject, min(fact_a) as fact_a, min(fact_b) as fact_b from (
    select cluster, concat('partition ', key, ', offset ', at) as subject,
        concat(place, ': the leader of ', key, ' is ', leader) as fact_a,
        concat('its ISR is {', array_join(isr, ', '), '}') as fact_b
    from metadata_partitions where leader >= 0 and not array_contains(isr, leader)
)
group by cluster, subject
