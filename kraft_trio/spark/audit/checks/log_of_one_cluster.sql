-- invariant: 23
-- title: no two clusters have the same log
-- reads: log_batches, log_replicas
-- observes: log_batches where error is null
-- severity: error
-- a row: a log has the batches of another cluster at the same offsets and epochs. Compared are the first batches of
-- each epoch and segment, those below offset 100, and a sample of the others. Two or more are the same, and more than
-- are not: a first LeaderChange alone may be the same by chance. Of the two clusters, the one with fewer directories is
-- taken for the wrong one. Directories without meta.properties are of any cluster.
with clusters as (
    select cluster, count(*) as directories from log_replicas where node is not null group by cluster
),
whole as (
    select b.cluster, b.directory, b.segment, b.epoch, b.base_offset, b.size, b.content_crc, b.place
    from log_batches b left semi join clusters c on c.cluster = b.cluster where b.error is null
),
firsts as (
    select cluster, directory, epoch, min(struct(base_offset, size, content_crc, place)) as batch
    from whole group by cluster, directory, segment, epoch
),
chosen as (
    select cluster, directory, epoch, base_offset, size, content_crc, place from whole
    where base_offset < 100 or content_crc % 256 = 0
    union
    select cluster, directory, epoch, batch.base_offset, batch.size, batch.content_crc, batch.place from firsts
),
held as (
    select cluster, epoch, base_offset, size, content_crc, min(place) as place from chosen
    group by cluster, epoch, base_offset, size, content_crc
),
compared as (
    select b.cluster, b.directory, h.cluster as other, b.base_offset, b.epoch, b.place, h.place as other_place,
        b.size = h.size and b.content_crc = h.content_crc as is_same
    from chosen b join held h on h.cluster <> b.cluster and h.epoch = b.epoch and h.base_offset = b.base_offset
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
having count_if(p.is_same) > 1 and 2 * count_if(p.is_same) > count(*)
