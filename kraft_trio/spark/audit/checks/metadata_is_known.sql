-- title: every record of Kafka's metadata is of a known type and version
-- reads: metadata_rows
-- observes: metadata_rows
-- severity: warning
-- a row: a record of an intact batch that cannot be decoded. A later version of Kafka may have written it.
-- What several replicas have is told once.
select cluster, subject, min(fact_a) as fact_a, min(fact_b) as fact_b from (
    select cluster, if(at < 0, 'a snapshot', concat('offset ', at)) as subject, concat(place, ': a whole record') as fact_a, error as fact_b
    from metadata_rows where error is not null and record is null
)
group by cluster, subject
