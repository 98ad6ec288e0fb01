-- title: the epoch of a broker grows with each of its incarnations
-- reads: metadata_brokers
-- observes: metadata_brokers where record = 'REGISTER_BROKER_RECORD'
-- severity: error
-- a row: a broker is registered with a lower epoch than before, or another incarnation with the same one. The epoch is
-- the end of the log at the time. An incarnation that registers again keeps its epoch.
-- What several replicas have is told once.
with registrations as (
    select *, lag(struct(epoch, incarnation, place)) over (partition by cluster, directory, key order by at) as before
    from metadata_brokers where record = 'REGISTER_BROKER_RECORD'
)
select cluster, subject, min(fact_a) as fact_a, min(fact_b) as fact_b from (
    select cluster, concat('broker ', key, ', epoch ', epoch) as subject,
        concat(before.place, ': incarnation ', before.incarnation, ' of broker ', key, ' has the epoch ', before.epoch) as fact_a,
        concat(place, ': incarnation ', incarnation, ' has the epoch ', epoch) as fact_b
    from registrations
    where epoch < before.epoch or (epoch = before.epoch and incarnation <> before.incarnation)
)
group by cluster, subject
