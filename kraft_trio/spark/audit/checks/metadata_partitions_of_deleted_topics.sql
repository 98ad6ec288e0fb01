-- title: a topic that is deleted takes its partitions with it
-- reads: metadata_rows
-- observes: metadata_rows where entity = 'topics'
-- severity: error
-- a row: a record is about a topic, or a partition of one, that an earlier record has deleted.
-- What several replicas have is told once.
with made as (
    select cluster, directory, key, at, get_json_object(after, '$.topic_id') as id
    from metadata_rows where entity = 'topics' and after is not null
),
gone as (
    select m.cluster, m.directory, m.id, max(m.key) as name, min(d.at) as at, min_by(d.place, d.at) as place
    from made m join metadata_rows d
        on d.cluster = m.cluster and d.directory = m.directory and d.key = m.key and d.at > m.at
    where d.entity = 'topics' and d.operation = 'delete'
    group by m.cluster, m.directory, m.id
)
select cluster, subject, min(fact_a) as fact_a, min(fact_b) as fact_b from (
    select r.cluster, concat('topic ', g.name, ', offset ', r.at) as subject,
        concat(g.place, ': the topic ', g.name, ' is deleted') as fact_a, concat(r.place, ': ', r.error) as fact_b
    from metadata_rows r join gone g
        on g.cluster = r.cluster and g.directory = r.directory and g.at < r.at
        and g.id = regexp_extract(r.error, 'no topic with the id ([-_0-9A-Za-z]+)$', 1)
    where r.error is not null and r.record is not null
)
group by cluster, subject
