-- reads: log_batches, log_breaks
-- One row a span of offsets, `first` to `end` (exclusive), of which no batch in a log is whole, so that nobody knows what was
-- there: it is damaged, or missing. What is before the log's first whole batch and behind its last one is such a span, too.
-- Of a log in which nothing is damaged or missing there is none.
with suspects as (
    select cluster, directory from log_batches where error is not null and position is not null
    union
    select cluster, directory from log_breaks
),
whole as (
    select b.cluster, b.directory, b.base_offset, b.last_offset
    from log_batches b left semi join suspects s on s.cluster = b.cluster and s.directory = b.directory
    where b.error is null
    union all
    select cluster, directory, 9223372036854775807, null from suspects
),
spans as (
    select cluster, directory, base_offset as end, coalesce(max(last_offset) over (
            partition by cluster, directory order by base_offset rows between unbounded preceding and 1 preceding
        ) + 1, 0) as first
    from whole
)
select cluster, directory, first, end from spans where first < end
