-- invariant: 23
-- title: no two clusters have the same log
-- reads: log_batches, log_replicas
-- observes: log_batches where error is null
-- severity: error
-- a row: a log has the batches of another cluster at the same offsets and epochs. Compared are the first batches of
-- each epoch and segment; more of them are the same than not. Of the two clusters, the one with fewer directories is
-- taken for the wrong one. Directories without meta.properties are of any cluster.
with clusters as (
    select cluster, count(*) as directories from log_replicas where node is not null group by cluster
),
firsts as (
    select b.cluster, b.directory, b.epoch, min(struct(b.position, b.base_offset, b.size, b.content_crc, b.place)) as batch
    from log_batches b left semi join clusters c on c.cluster = b.cluster
    where b.error is null group by b.cluster, b.directory, b.segment, b.epoch
),
held as (
    select cluster, epoch, batch.base_offset, batch.size, batch.content_crc, min(batch.place) as place from firsts
    group by cluster, epoch, batch.base_offset, batch.size, batch.content_crc
),
compared as (
    select f.cluster, f.directory, h.cluster as other, f.batch.base_offset, f.epoch, f.batch.place, h.place as other_place,
        f.batch.size = h.size and f.batch.content_crc = h.content_crc as is_same
    from firsts f join held h
        on h.cluster <> f.cluster and h.epoch = f.epoch and h.base_offset = f.batch.base_offset
)
select p.cluster, p.directory as subject,
    concat(min_by(p.place, p.base_offset) filter (where p.is_same), ': offset ',
        min(p.base_offset) filter (where p.is_same), ' of cluster ', p.cluster) as fact_a,
    concat(min_by(p.other_place, p.base_offset) filter (where p.is_same), ': the same batch of cluster ', p.other,
        ', and ', count_if(p.is_same) - 1, ' more') as fact_b
from compared p
join clusters c on c.cluster = p.cluster
join clusters o on o.cluster = p.other
where c.directories <= o.directories
group by p.cluster, p.directory, p.other
having 2 * count_if(p.is_same) > count(*)
