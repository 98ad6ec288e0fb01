-- invariant: 9
-- title: the high watermark of successive leaders never falls
-- reads: events
-- observes: events where kind = 'high_watermark' and role = 'Leader'
-- severity: error
-- a row: a leader has a lower high watermark than a leader of an earlier epoch had.
with marks as (
    select run, epoch, min(struct(high_watermark, place)) as first, max(struct(high_watermark, place)) as last
    from events where kind = 'high_watermark' and role = 'Leader' group by all
),
pairs as (
    select *, max(last) over (
        partition by run order by epoch rows between unbounded preceding and 1 preceding
    ) as before
    from marks
)
select run as cluster, concat('epoch ', epoch) as subject,
    concat(before.place, ': the high watermark of a leader of a lower epoch is ', before.high_watermark) as fact_a,
    concat(first.place, ': that of the leader of epoch ', epoch, ' is ', first.high_watermark) as fact_b
from pairs where first.high_watermark < before.high_watermark
