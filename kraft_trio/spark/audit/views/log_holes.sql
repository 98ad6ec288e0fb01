-- reads: log_batches, log_breaks
-- One row per range of offsets, `first` to `end` (exclusive), in which a log has no intact batch, so that its
-- contents are unknown. The ranges before the first and after the last intact batch count too. A log without damage
-- or gaps has no rows.
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
