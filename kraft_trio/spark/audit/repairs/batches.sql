-- reads: log_batches, log_spans
-- One row per damaged part of a log and replica that has whole batches there: in the same segment, at the same
-- positions, and continued by what follows in the damaged log. `content` is the same for the same batches. Damage at a
-- log's end is left out: opening the log removes it.
with damaged as (
    select b.cluster, b.directory, b.place, b.segment, b.position, b.size, b.base_offset
    from log_batches b join log_spans s on s.cluster = b.cluster and s.directory = b.directory
    where b.error is not null and b.position is not null and b.size > 0 and not coalesce(b.crc_ok, false)
        and b.order < s.last_whole
),
followed as (
    select d.*, n.base_offset as next_offset
    from damaged d left join log_batches n
        on n.cluster = d.cluster and n.directory = d.directory and n.segment = d.segment
        and n.position = d.position + d.size and n.error is null
)
select /*+ broadcast(d) */ d.cluster, d.directory, d.place, d.segment, d.position, d.size, b.directory as holder,
    sum(b.content_crc) as content
from followed d join log_batches b on b.cluster = d.cluster and b.segment = d.segment
where b.directory <> d.directory and b.error is null and b.position >= d.position
    and b.position + b.size <= d.position + d.size
group by d.cluster, d.directory, d.place, d.segment, d.position, d.size, d.base_offset, d.next_offset, b.directory
having sum(b.size) = d.size and min(b.base_offset) = coalesce(d.base_offset, min(b.base_offset))
    and max(b.last_offset) + 1 = coalesce(d.next_offset, max(b.last_offset) + 1)
