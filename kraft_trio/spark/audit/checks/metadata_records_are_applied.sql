-- title: records of Kafka's metadata are about things that exist
-- reads: metadata_rows, metadata_snapshots
-- observes: metadata_rows
-- severity: error
-- a row: a record about a topic, partition, broker or entry that never existed, or a broker of another epoch. Kafka's
-- nodes refuse it too. Records about deleted topics are another check's. What several replicas have is told once.
with topics as (
    select distinct cluster, directory, get_json_object(after, '$.topic_id') as id from metadata_rows where entity = 'topics'
)
select cluster, subject, min(fact_a) as fact_a, min(fact_b) as fact_b from (
    select r.cluster, concat('offset ', r.at) as subject, concat(r.place, ': a ', r.record) as fact_a,
        r.error as fact_b
    from metadata_rows r left join topics t
        on t.cluster = r.cluster and t.directory = r.directory
        and t.id = regexp_extract(r.error, 'no topic with the id ([-_0-9A-Za-z]+)$', 1)
    where r.error is not null and r.record is not null and r.at >= 0 and t.id is null
    union all
    select coalesce(cluster_id, 'unknown'), concat(coalesce(concat_ws('-', node, directory_id), directory), ', snapshot ', end_offset),
        concat(directory, ', the snapshot that ends at ', end_offset, ': a ', record), error
    from metadata_snapshots where error is not null and record is not null
)
group by cluster, subject
