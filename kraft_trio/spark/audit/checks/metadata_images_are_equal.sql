-- title: replicas of Kafka's metadata have the same things at the same offset
-- reads: metadata_rows, metadata_things
-- observes: metadata_rows where error is null
-- severity: error
-- a row: two replicas differ in something at the last change that both have. The first one is the replica whose log goes
-- furthest. Parts of logs that only one replica has are not compared.
with ends as (
    select cluster, directory, max(at) as last from metadata_rows group by cluster, directory
),
furthest as (
    select cluster, max_by(directory, struct(last, directory)) as directory from ends group by cluster
),
common as (
    select f.cluster, f.directory, b.directory as other, max(a.at) as at
    from furthest f
    join metadata_rows a on a.cluster = f.cluster and a.directory = f.directory
    join metadata_rows b on b.cluster = a.cluster and b.at = a.at and b.epoch = a.epoch and b.directory <> a.directory
    where a.at >= 0 and a.error is null and b.error is null
    group by f.cluster, f.directory, b.directory
),
held as (
    select c.cluster, c.directory, c.other, c.at, t.entity, t.key, t.directory as holder, max_by(t.value, t.at) as value
    from common c join metadata_things t on t.cluster = c.cluster and t.end_offset is null and t.at <= c.at
    where t.directory = c.directory or t.directory = c.other
    group by c.cluster, c.directory, c.other, c.at, t.entity, t.key, t.directory
),
compared as (
    select cluster, directory, other, at, entity, key, max(if(holder = directory, value, '')) as first,
        max(if(holder = other, value, '')) as second
    from held group by cluster, directory, other, at, entity, key
)
select cluster, concat(entity, ' ', key, ', offset ', at) as subject,
    concat(directory, ': ', if(first = '', 'it does not exist', substr(first, 1, 400))) as fact_a,
    concat(other, ': ', if(second = '', 'it does not exist', substr(second, 1, 400))) as fact_b
from compared where first <> second
