-- title: a snapshot of Kafka's metadata has what its log gives up to there
-- reads: metadata_open, metadata_things, metadata_changes, metadata_snapshots, log_snapshots, log_spans, log_epoch_starts
-- observes: log_snapshots where end_offset > 0
-- severity: error
-- a row: a snapshot and the replay of the log before it differ in something. A snapshot that may replace the log,
-- whose records the log lacks, or that ends within a transaction, is not compared. Kafka may keep the configuration of a topic that one read deletes.
with unread as (
    select directory, min(coalesce(offset, -1)) as at from metadata_changes
    where error is not null and epoch is null group by directory
),
beside as (
    select s.cluster, s.directory, s.replica, s.end_offset, s.epoch, max(s.place) as place
    from log_snapshots s
    join log_spans l on l.cluster = s.cluster and l.directory = s.directory
    join log_epoch_starts e on e.cluster = s.cluster and e.directory = s.directory and e.start_offset < s.end_offset
    left join unread u on u.directory = s.directory
    left anti join metadata_snapshots m
        on m.directory = s.directory and m.end_offset = s.end_offset and m.error is not null
    left anti join metadata_open o
        on o.directory = s.directory and s.end_offset > o.first and (o.last is null or s.end_offset <= o.last)
    where s.valid and s.end_offset > l.log_start and s.end_offset <= l.log_end
        and (u.at is null or s.end_offset <= u.at)
    group by s.cluster, s.directory, s.replica, s.end_offset, s.epoch having max(e.epoch) = s.epoch
),
logged as (
    select b.directory, b.end_offset, t.entity, t.key, max_by(t.value, t.at) as value
    from beside b join metadata_things t
        on t.cluster = b.cluster and t.directory = b.directory and t.end_offset is null and t.at < b.end_offset
    group by b.directory, b.end_offset, t.entity, t.key
),
kept as (
    select b.directory, b.end_offset, t.entity, t.key, t.value
    from beside b join metadata_things t
        on t.cluster = b.cluster and t.directory = b.directory and t.end_offset = b.end_offset and t.epoch = b.epoch
),
both_of as (
    select directory, end_offset, entity, key, max(logged) as logged, max(kept) as kept from (
        select directory, end_offset, entity, key, value as logged, '' as kept from logged
        union all
        select directory, end_offset, entity, key, '' as logged, value as kept from kept
    )
    group by directory, end_offset, entity, key having max(logged) <> max(kept)
)
select b.cluster, concat(b.replica, ', snapshot ', b.end_offset, ', ', d.entity, ' ', d.key) as subject,
    concat(b.place, ': ', if(d.kept = '', 'it is not there', substr(d.kept, 1, 400))) as fact_a,
    concat('by the log before it: ', if(d.logged = '', 'it does not exist', substr(d.logged, 1, 400))) as fact_b
from beside b join both_of d on d.directory = b.directory and d.end_offset = b.end_offset
left join kept t
    on t.directory = d.directory and t.end_offset = d.end_offset and t.entity = 'topics'
    and t.key = split_part(d.key, ':', 2)
where not (d.entity = 'configs' and d.key like 'TOPIC:%' and d.logged = '' and t.key is null)
