-- reads: events
-- How long a leader's appends took to commit, in milliseconds: percentiles 0 to 100.
with marks as (
    select run, node, process, epoch, kind, time_us, if(kind = 'append', next_offset, high_watermark) as offset
    from events
    where role = 'Leader' and kind in ('append', 'high_watermark') and array_contains(:clusters, run)
),
committed as (
    select *, min(if(kind = 'high_watermark', time_us, null)) over (
        partition by run, node, process, epoch order by offset desc range between unbounded preceding and current row
    ) as committed_us
    from marks
),
latencies as (
    select run as cluster, (committed_us - time_us) / 1e3 as latency_ms from committed
    where kind = 'append' and committed_us is not null
)
select cluster, count(*) as appends,
    percentile(latency_ms, :percents) as percentiles_ms
from latencies group by cluster
