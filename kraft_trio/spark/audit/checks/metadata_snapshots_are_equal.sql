-- title: snapshots of Kafka's metadata with the same id have the same things
-- reads: metadata_things, metadata_snapshots
-- observes: metadata_things where end_offset > 0
-- severity: error
-- a row: snapshots of two replicas differ in something. Their records may have any order. Kafka may keep the
-- configuration of a topic that one read deletes.
with whole as (
    select distinct t.cluster, t.directory, t.end_offset, t.epoch
    from metadata_things t
    left anti join metadata_snapshots m
        on m.directory = t.directory and m.end_offset = t.end_offset and m.error is not null
    where t.end_offset > 0
),
counted as (
    select cluster, end_offset, epoch, count(*) as copies
    from whole group by cluster, end_offset, epoch having count(*) > 1
),
held as (
    select c.cluster, c.end_offset, c.epoch, c.copies, t.entity, t.key, count(*) as holders,
        min(t.value) as least, max(t.value) as greatest, min_by(t.directory, t.value) as one,
        max_by(t.directory, t.value) as another, min(t.directory) as first_holder
    from counted c join metadata_things t
        on t.cluster = c.cluster and t.end_offset = c.end_offset and t.epoch = c.epoch
    group by c.cluster, c.end_offset, c.epoch, c.copies, t.entity, t.key
)
select h.cluster, concat('snapshot ', h.end_offset, '@', h.epoch, ', ', h.entity, ' ', h.key) as subject,
    concat(if(h.holders < h.copies, h.first_holder, h.one), ': ', substr(h.least, 1, 400)) as fact_a,
    if(h.holders < h.copies, concat(h.copies - h.holders, ' of ', h.copies, ' replicas do not have it'),
        concat(h.another, ': ', substr(h.greatest, 1, 400))) as fact_b
from held h left join held t
    on t.cluster = h.cluster and t.end_offset = h.end_offset and t.epoch = h.epoch and t.entity = 'topics'
    and t.key = split_part(h.key, ':', 2)
where (h.holders < h.copies or h.least <> h.greatest)
    and not (h.entity = 'configs' and h.key like 'TOPIC:%' and h.holders < h.copies and t.key is null)
